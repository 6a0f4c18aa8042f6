// RUN: fxc-opt %s | fxc-opt | filecheck %s
// RUN: fxc-opt %s --print-op-generic | fxc-opt | filecheck %s
// RUN: fxc-opt %s --print-op-generic | fxc-opt --print-op-generic | filecheck %s --check-prefix=GENERIC

/// A call is written as it was made: what it passed, in schema order, and nothing that it left out.
// CHECK-LABEL: func.func @calls
// GENERIC-LABEL: sym_name = "calls"
func.func @calls(%x: tensor<2x3xf32>, %n: !torch.int, %s: !torch.float) {
  // CHECK-NEXT: %a = torch.aten.add.Tensor(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // GENERIC: "torch.aten.add.Tensor"(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %a = torch.aten.add.Tensor(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %b = torch.aten.add.Tensor(%x, %a, alpha = 2) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // GENERIC-NEXT: "torch.aten.add.Tensor"(%x, %a) <{alpha = 2 : i64}>
  %b = torch.aten.add.Tensor(%x, %a, alpha = 2) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  /// A number that stands in a value.
  // CHECK-NEXT: torch.aten.add.Tensor(%x, %a, alpha = %s) :
  // GENERIC-NEXT: "torch.aten.add.Tensor"(%x, %a, %s) :
  %c = torch.aten.add.Tensor(%x, %a, alpha = %s) : (tensor<2x3xf32>, tensor<2x3xf32>, !torch.float) -> tensor<2x3xf32>
  /// Lists that mix values and constants.
  // CHECK-NEXT: torch.aten.view.default(%x, [%n, 3]) :
  // GENERIC-NEXT: "torch.aten.view.default"(%x, %n) <{size = [#fx.ssa, 3 : i64]}>
  %d = torch.aten.view.default(%x, [%n, 3]) : (tensor<2x3xf32>, !torch.int) -> tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>
  // CHECK-NEXT: torch.aten.cat.default([%x, %a], -1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  %e = torch.aten.cat.default([%x, %a], -1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  // CHECK-NEXT: torch.aten.index.Tensor(%x, [none, %x]) :
  %f = torch.aten.index.Tensor(%x, [none, %x]) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2x3xf32>
  /// An operand after a constant: which argument it is cannot be told from the order.
  // CHECK-NEXT: torch.aten.full.default([2, 3], %s, dtype = torch.float32) :
  // GENERIC: "torch.aten.full.default"(%s) <{size = [2 : i64, 3 : i64], dtype = #torch.dtype<"float32">}>
  %g = torch.aten.full.default([2, 3], %s, dtype = torch.float32) : (!torch.float) -> tensor<2x3xf32>
  // CHECK-NEXT: torch.aten.clamp.default(%x, none, %s) :
  // GENERIC-NEXT: "torch.aten.clamp.default"(%x, %s) <{min = #fx.none}>
  %h = torch.aten.clamp.default(%x, none, %s) : (tensor<2x3xf32>, !torch.float) -> tensor<2x3xf32>
  // CHECK-NEXT: torch.aten.clamp.default(%x, max = %s) :
  // GENERIC-NEXT: "torch.aten.clamp.default"(%x, %s) <{max = #fx.ssa, keywords = ["max"]}>
  %i = torch.aten.clamp.default(%x, max = %s) : (tensor<2x3xf32>, !torch.float) -> tensor<2x3xf32>
  func.return
}

/// Positional arguments that were passed by keyword, and keywords in another order than the schema's, stay so.
// CHECK-LABEL: func.func @keywords
// GENERIC-LABEL: sym_name = "keywords"
func.func @keywords(%x: tensor<2x3xf32>) {
  // CHECK-NEXT: torch.aten.sum.dim_IntList(%x, dim = [0], keepdim = true) :
  // GENERIC: <{dim = [0 : i64], keepdim = true, keywords = ["dim", "keepdim"]}>
  %a = torch.aten.sum.dim_IntList(%x, dim = [0], keepdim = true) : (tensor<2x3xf32>) -> tensor<1x3xf32>
  // CHECK-NEXT: torch.aten.sum.dim_IntList(%x, keepdim = true, dim = [0]) :
  // GENERIC-NEXT: <{dim = [0 : i64], keepdim = true, keywords = ["keepdim", "dim"]}>
  %b = torch.aten.sum.dim_IntList(%x, keepdim = true, dim = [0]) : (tensor<2x3xf32>) -> tensor<1x3xf32>
  // CHECK-NEXT: torch.aten.add.Tensor(self = %x, other = %x) :
  %c = torch.aten.add.Tensor(self = %x, other = %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  /// Operands lie in schema order, whatever the order of the keywords.
  // CHECK-NEXT: %d = torch.aten.sub.Tensor(other = %c, self = %x) :
  // GENERIC: "torch.aten.sub.Tensor"(%x, %c) <{keywords = ["other", "self"]}>
  %d = torch.aten.sub.Tensor(other = %c, self = %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

/// Several returns: one value of type tuple as FX has them, or one result each.
// CHECK-LABEL: func.func @results
func.func @results(%x: tensor<4xf32>) {
  // CHECK-NEXT: %p = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
  %p = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
  // CHECK-NEXT: %v, %i = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi64>)
  %v, %i = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi64>)
  // CHECK-NEXT: %s = torch.aten.split.Tensor(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xf32>>
  %s = torch.aten.split.Tensor(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xf32>>
  // CHECK-NEXT: %l, %r = torch.aten.split.Tensor(%x, 2) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  %l, %r = torch.aten.split.Tensor(%x, 2) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  // CHECK-NEXT: %n = torch.aten._assert_async.msg(%x, "why") : (tensor<4xf32>) -> !torch.none
  %n = torch.aten._assert_async.msg(%x, "why") : (tensor<4xf32>) -> !torch.none
  // CHECK-NEXT: %size = torch.aten.sym_size.int(%x, 0) {fx.note} : (tensor<4xf32>) -> !torch.int<"4">
  %size = torch.aten.sym_size.int(%x, 0) {fx.note} : (tensor<4xf32>) -> !torch.int<"4">
  func.return
}

/// Other namespaces, and an operator whose overload has a name of its own.
// CHECK-LABEL: func.func @namespaces
func.func @namespaces(%x: tensor<4xf32>) {
  // CHECK-NEXT: torch._c10d_functional.all_reduce.default(%x, "sum", "0") :
  %a = torch._c10d_functional.all_reduce.default(%x, "sum", "0") : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: torch.aten.relu_.default(%x) :
  %b = torch.aten.relu_.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

/// Constants that PyTorch converts to the type of the schema: a truth value, an integer, one number for a list, none.
// CHECK-LABEL: func.func @converted_constants
// CHECK-NEXT:    torch.aten.add.Tensor(%x, 1, alpha = true)
// CHECK-NEXT:    torch.aten.sum.dim_IntList(%x, 0, 1)
// CHECK-NEXT:    torch.aten.leaky_relu.default(%x, 1)
// CHECK-NEXT:    torch.aten.index.Tensor(%x, [none, %x])
func.func @converted_constants(%x: tensor<2x2xi64>) {
  %a = torch.aten.add.Tensor(%x, 1, alpha = true) : (tensor<2x2xi64>) -> tensor<2x2xi64>
  %b = torch.aten.sum.dim_IntList(%x, 0, 1) : (tensor<2x2xi64>) -> tensor<1x2xi64>
  %c = torch.aten.leaky_relu.default(%x, 1) : (tensor<2x2xi64>) -> tensor<2x2xi64>
  %d = torch.aten.index.Tensor(%x, [none, %x]) : (tensor<2x2xi64>, tensor<2x2xi64>) -> tensor<2x2x2xi64>
  func.return
}
