// RUN: fxc-opt %s --split-input-file --pass-pipeline=convert-fx-to-torch | filecheck %s

/// A function call becomes a call of a function of operators, at the operand's type.
// CHECK-LABEL: func.func @function
// CHECK: %relu = func.call @relu(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: fx.output(%relu)
// CHECK: func.func private @relu(%
// CHECK-NEXT: torch.aten.relu.default
func.func @function(%x: tensor<2x3xf32>) -> !fx.value {
  %relu = fx.call_function @torch.nn.functional.relu(%x) : (tensor<2x3xf32>) -> !fx.value
  fx.output(%relu) : (!fx.value) -> ()
}

// -----

/// An in-place call stays one: functionalize removes it.
// CHECK-LABEL: func.func @in_place
// CHECK: torch.aten.relu_.default
func.func @in_place(%x: tensor<2x3xf32>) -> !fx.value {
  %relu = fx.call_function @torch.nn.functional.relu(%x, inplace = true) : (tensor<2x3xf32>) -> !fx.value
  fx.output(%relu) : (!fx.value) -> ()
}

// -----

/// What depends on sizes alone leaves no op behind.
// CHECK-LABEL: func.func @sizes
// CHECK-NOT: fx.call
// CHECK: func.call @view(%x)
// CHECK: torch.aten.view.default(%{{.*}}, [6])
func.func @sizes(%x: tensor<2x3xf32>) -> !fx.value {
  %shape = fx.call_function @getattr(%x, "shape") : (tensor<2x3xf32>) -> !fx.value
  %rows = fx.call_function @operator.getitem(%shape, 0) : (!fx.value) -> !fx.value
  %all = fx.call_function @operator.mul(%rows, 3) : (!fx.value) -> !fx.value
  %view = fx.call_method @view(%x, %all) : (tensor<2x3xf32>, !fx.value) -> !fx.value
  fx.output(%view) : (!fx.value) -> ()
}

// -----

/// A symbolic size is a value of the graph.
// CHECK-LABEL: func.func @symbolic
// CHECK: -> tensor<?xf32, #torch.meta<sizes = ["3*s0"]>>
// CHECK: torch.aten.sym_size.int(%{{.*}}, 0)
builtin.module attributes {torch.symbols = {s0 = {hint = 5 : i64, min = 2 : i64}}} {
  func.func @symbolic(%x: tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>) -> !fx.value {
    %rows = fx.call_method @size(%x, 0) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>) -> !fx.value
    %all = fx.call_function @operator.mul(%rows, 3) : (!fx.value) -> !fx.value
    %view = fx.call_method @view(%x, %all) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>, !fx.value) -> !fx.value
    fx.output(%view) : (!fx.value) -> ()
  }
}

// -----

/// A module's parameters become arguments, and equal layers share one function.
// CHECK-NOT: fx.module
// CHECK-NOT: fx.tensor
// CHECK-LABEL: func.func @module
// CHECK-SAME: {fx.kind = "parameter", fx.name = "a.weight", fx.requires_grad}
// CHECK-SAME: {fx.kind = "parameter", fx.name = "b.weight", fx.requires_grad}
// CHECK: func.call @Linear(%x, %p_a_weight)
// CHECK: func.call @Linear(%{{.*}}, %p_b_weight)
// CHECK: func.func private @Linear(
// CHECK-NOT: func.func private
fx.module @a @torch.nn.modules.linear.Linear(weight = #fx.state<"a.weight">, bias = none, training = false, in_features = 3, out_features = 3)
fx.module @b @torch.nn.modules.linear.Linear(weight = #fx.state<"b.weight">, bias = none, training = false, in_features = 3, out_features = 3)
fx.tensor @a.weight : tensor<3x3xf32> {kind = "parameter", requires_grad}
fx.tensor @b.weight : tensor<3x3xf32> {kind = "parameter", requires_grad}
func.func @module(%x: tensor<2x3xf32>) -> !fx.value {
  %a = fx.call_module @a(%x) : (tensor<2x3xf32>) -> !fx.value
  %b = fx.call_module @b(%a) : (!fx.value) -> !fx.value
  fx.output(%b) : (!fx.value) -> ()
}

// -----

/// Dropout keeps the mode that the module was captured in.
// CHECK-LABEL: func.func @mode
// CHECK: torch.aten.dropout.default(%{{.*}}, 0.5, true)
fx.module @drop @torch.nn.modules.dropout.Dropout(training = true, p = 0.5, inplace = false)
func.func @mode(%x: tensor<2x3xf32>) -> !fx.value {
  %a = fx.call_module @drop(%x) : (tensor<2x3xf32>) -> !fx.value
  fx.output(%a) : (!fx.value) -> ()
}

// -----

/// A packed operator gets a result an element, under the names that the graph gave them.
// CHECK-LABEL: func.func @packed
// CHECK: %values, %indices = torch.aten.max.dim(%x, 1)
// CHECK-NEXT: fx.output((%values, %indices))
func.func @packed(%x: tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2xi64>) {
  %max = torch.aten.max.dim(%x, 1) : (tensor<2x3xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
  %values = fx.call_function @operator.getitem(%max, 0) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tensor<2xf32>
  %indices = fx.call_function @operator.getitem(%max, 1) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tensor<2xi64>
  fx.output((%values, %indices)) : (tensor<2xf32>, tensor<2xi64>) -> ()
}
