// RUN: fxc-opt %s --split-input-file --pass-pipeline=lower-simple-tuples | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=lower-simple-tuples,lower-simple-tuples | filecheck %s

/// Results take the names of the getitems; a result that nothing reads has none.
// CHECK-LABEL: func.func @named
// CHECK-NEXT:    %getitem, %0 = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi64>)
// CHECK-NEXT:    %y = torch.aten.relu.default(%getitem)
func.func @named(%x: tensor<4xf32>) {
  %t = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
  %getitem = fx.call_function @operator.getitem(%t, 0) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tensor<2xf32>
  %y = torch.aten.relu.default(%getitem) : (tensor<2xf32>) -> tensor<2xf32>
  fx.output(%y) : (tensor<2xf32>) -> ()
}

// -----

/// A negative index counts from the end; taking one element twice gives one result, under the first name.
// CHECK-LABEL: func.func @negative_and_twice
// CHECK-NEXT:    %v, %a = torch.aten.topk.default(%x, 2)
// CHECK-NEXT:    fx.output((%v, %a, %a))
func.func @negative_and_twice(%x: tensor<4xf32>) {
  %t = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
  %a = fx.call_function @operator.getitem(%t, -1) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tensor<2xi64>
  %b = fx.call_function @_operator.getitem(%t, 1) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tensor<2xi64>
  %v = fx.call_function @operator.getitem(%t, 0) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tensor<2xf32>
  fx.output((%v, %a, %b)) : (tensor<2xf32>, tensor<2xi64>, tensor<2xi64>) -> ()
}

// -----

/// A list that an operator returns: one result an element, one element included.
// CHECK-LABEL: func.func @list
// CHECK-NEXT:    %0, %b = torch.aten.split.Tensor(%x, 2) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
// CHECK-NEXT:    %c = torch.aten.split.Tensor(%x, 4) : (tensor<4xf32>) -> tensor<4xf32>
func.func @list(%x: tensor<4xf32>) {
  %t = torch.aten.split.Tensor(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xf32>>
  %b = fx.call_function @operator.getitem(%t, 1) : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
  %u = torch.aten.split.Tensor(%x, 4) : (tensor<4xf32>) -> tuple<tensor<4xf32>>
  %c = fx.call_function @operator.getitem(%u, 0) : (tuple<tensor<4xf32>>) -> tensor<4xf32>
  fx.output((%b, %c)) : (tensor<2xf32>, tensor<4xf32>) -> ()
}

// -----

/// A chain of slices and a getitem collapses at once.
// CHECK-LABEL: func.func @slices
// CHECK-NEXT:    %0, %1, %c, %d = torch.aten.split.Tensor(%x, 1)
// CHECK-NEXT:    fx.output((%c, %d))
func.func @slices(%x: tensor<4xf32>) {
  %t = torch.aten.split.Tensor(%x, 1) : (tensor<4xf32>) -> tuple<tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>>
  %u = fx.call_function @operator.getitem(%t, slice(1, none, none)) : (tuple<tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>>) -> tuple<tensor<1xf32>, tensor<1xf32>, tensor<1xf32>>
  %v = fx.call_function @operator.getitem(%u, slice(none, none, -1)) : (tuple<tensor<1xf32>, tensor<1xf32>, tensor<1xf32>>) -> tuple<tensor<1xf32>, tensor<1xf32>, tensor<1xf32>>
  %c = fx.call_function @operator.getitem(%u, 1) : (tuple<tensor<1xf32>, tensor<1xf32>, tensor<1xf32>>) -> tensor<1xf32>
  %d = fx.call_function @operator.getitem(%v, 0) : (tuple<tensor<1xf32>, tensor<1xf32>, tensor<1xf32>>) -> tensor<1xf32>
  fx.output((%c, %d)) : (tensor<1xf32>, tensor<1xf32>) -> ()
}

// -----

/// Higher-order calls, and calls inside their graphs.
// CHECK-LABEL: func.func @higher_order
// CHECK-NEXT:    %a, %0 = torch.higher_order.cond
// CHECK:           %v, %0 = torch.aten.topk.default(%y, 2)
// CHECK:         }) : (tensor<i1>, tensor<4xf32>) -> (tensor<2xf32>, tensor<4xf32>)
// CHECK-NEXT:    %b = torch.higher_order.cond
// CHECK:         }) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
func.func @higher_order(%p: tensor<i1>, %x: tensor<4xf32>) {
  %t = torch.higher_order.cond(%p, @then, @else, (%x,)) ({
  ^bb0(%y: tensor<4xf32>):
    %k = torch.aten.topk.default(%y, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
    %v = fx.call_function @operator.getitem(%k, 0) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tensor<2xf32>
    fx.output((%v, %y)) : (tensor<2xf32>, tensor<4xf32>) -> ()
  }, {
  ^bb0(%y: tensor<4xf32>):
    %s = torch.aten.slice.Tensor(%y, 0, 0, 2) : (tensor<4xf32>) -> tensor<2xf32>
    fx.output((%s, %y)) : (tensor<2xf32>, tensor<4xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<4xf32>>
  %a = fx.call_function @operator.getitem(%t, 0) : (tuple<tensor<2xf32>, tensor<4xf32>>) -> tensor<2xf32>
  %u = torch.higher_order.cond(%p, @then, @else, (%x,)) ({
  ^bb0(%y: tensor<4xf32>):
    fx.output((%y,)) : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%y: tensor<4xf32>):
    fx.output((%y,)) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>) -> tuple<tensor<4xf32>>
  %b = fx.call_function @operator.getitem(%u, 0) : (tuple<tensor<4xf32>>) -> tensor<4xf32>
  fx.output((%a, %b)) : (tensor<2xf32>, tensor<4xf32>) -> ()
}

// -----

/// The tuple as a whole is returned, passed on, or sliced and returned.
// CHECK-LABEL: func.func @escapes
// CHECK-COUNT-3: torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
func.func @escapes(%x: tensor<4xf32>) {
  %t = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
  %a = fx.call_function @operator.getitem(%t, 0) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tensor<2xf32>
  %u = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
  %n = fx.call_function @len(%u) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> !torch.int
  %v = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
  %s = fx.call_function @operator.getitem(%v, slice(0, 1, none)) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tuple<tensor<2xf32>>
  fx.output((%t, %a, %n, %s)) : (tuple<tensor<2xf32>, tensor<2xi64>>, tensor<2xf32>, !torch.int, tuple<tensor<2xf32>>) -> ()
}

// -----

/// An index that is a value, out of range, or no integer.
// CHECK-LABEL: func.func @other_indices
// CHECK-COUNT-3: torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
func.func @other_indices(%x: tensor<4xf32>, %i: !torch.int) {
  %t = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
  %a = fx.call_function @operator.getitem(%t, %i) : (tuple<tensor<2xf32>, tensor<2xi64>>, !torch.int) -> tensor<2xf32>
  %u = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
  %b = fx.call_function @operator.getitem(%u, 2) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tensor<2xf32>
  %v = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
  %c = fx.call_function @operator.getitem(%v, true) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tensor<2xi64>
  fx.output((%a, %b, %c)) : (tensor<2xf32>, tensor<2xf32>, tensor<2xi64>) -> ()
}

// -----

/// A call that nothing uses is left to dce; a tuple inside a tuple stays one value.
// CHECK-LABEL: func.func @unused_and_nested
// CHECK-NEXT:    %t = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
// CHECK-NEXT:    %0, %m = torch.higher_order.run_with_rng_state(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tuple<tensor<2xf32>, tensor<2xi64>>)
// CHECK-NEXT:    %a = fx.call_function @operator.getitem(%m, 0)
func.func @unused_and_nested(%x: tensor<4xf32>) {
  %t = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
  %l = torch.higher_order.run_with_rng_state(%x) : (tensor<4xf32>) -> tuple<tensor<4xf32>, tuple<tensor<2xf32>, tensor<2xi64>>>
  %m = fx.call_function @operator.getitem(%l, 1) : (tuple<tensor<4xf32>, tuple<tensor<2xf32>, tensor<2xi64>>>) -> tuple<tensor<2xf32>, tensor<2xi64>>
  %a = fx.call_function @operator.getitem(%m, 0) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tensor<2xf32>
  fx.output(%a) : (tensor<2xf32>) -> ()
}
