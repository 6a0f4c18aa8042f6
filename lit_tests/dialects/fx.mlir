// RUN: fxc-opt %s | fxc-opt | filecheck %s
// RUN: fxc-opt %s --print-op-generic | fxc-opt | filecheck %s
// RUN: fxc-opt %s --print-debuginfo | fxc-opt --print-debuginfo | fxc-opt | filecheck %s

/// Tensors and modules of the user's model are data beside the function.
// CHECK: fx.tensor @fc.weight : tensor<10x5xf32> {kind = "parameter", requires_grad}
fx.tensor @fc.weight : tensor<10x5xf32> {kind = "parameter", requires_grad}
// CHECK: fx.tensor @running_mean : tensor<?xf32, #torch.meta<sizes = ["s0"]>> {kind = "buffer", non_persistent}
fx.tensor @running_mean : tensor<?xf32, #torch.meta<sizes = ["s0"]>> {non_persistent, kind = "buffer"}
// CHECK: fx.tensor @"a name\0A" : tensor<f32> {kind = "constant", fx.note = 1 : i64}
fx.tensor @"a name\n" : tensor<f32> {kind = "constant", fx.note = 1 : i64}
// CHECK: fx.module @fc @torch.nn.modules.linear.Linear(in_features = 5, weight = #fx.state<"fc.weight">, bias = none, hook = #fx.opaque<"a.Hook">)
fx.module @fc @torch.nn.modules.linear.Linear(in_features = 5, weight = #fx.state<"fc.weight">, bias = none, hook = #fx.opaque<"a.Hook">)
// CHECK: fx.module @relu @torch.nn.modules.activation.ReLU()
fx.module @relu @torch.nn.modules.activation.ReLU()

/// The four kinds of nodes, and what they take.
// CHECK-LABEL: func.func @nodes
func.func @nodes(%x: !fx.value, %y: tensor<2x3xf32>) {
  // CHECK-NEXT: %w = fx.get_attr @fc.weight() : () -> tensor<10x5xf32>
  %w = fx.get_attr @fc.weight() : () -> tensor<10x5xf32>
  // CHECK-NEXT: %h = fx.call_module @fc(%x) : (!fx.value) -> !fx.value
  %h = fx.call_module @fc(%x) : (!fx.value) -> !fx.value
  // CHECK-NEXT: %v = fx.call_method @view(%h, -1, size = [%x, 2]) : (!fx.value, !fx.value) -> !fx.value
  %v = fx.call_method @view(%h, -1, size = [%x, 2]) : (!fx.value, !fx.value) -> !fx.value
  // CHECK-NEXT: %f = fx.call_function @torch.nn.functional.relu(%v, inplace = false) {fx.note = "kept"} : (!fx.value) -> !fx.value
  %f = fx.call_function @torch.nn.functional.relu(%v, inplace = false) {fx.note = "kept"} : (!fx.value) -> !fx.value
  // CHECK-NEXT: fx.call_function @torch._assert(%f, "a \22 quote") : (!fx.value) -> ()
  fx.call_function @torch._assert(%f, "a \" quote") : (!fx.value) -> ()
  // CHECK-NEXT: %p, %q = fx.call_function @f() : () -> (tensor<f32>, !torch.int)
  %p, %q = fx.call_function @f() : () -> (tensor<f32>, !torch.int)
  // CHECK-NEXT: fx.output(%f, [%h, none], {"k" = %w}) : (!fx.value, !fx.value, tensor<10x5xf32>) -> ()
  fx.output(%f, [%h, none], {"k" = %w}) : (!fx.value, !fx.value, tensor<10x5xf32>) -> ()
}

/// Every constant that an argument may be.
// CHECK-LABEL: func.func @constants
func.func @constants() {
  // CHECK-NEXT: fx.call_function @numbers(0, -1, 9223372036854775807, 9223372036854775808, 1 : i32, 2 : index, true, false)
  fx.call_function @numbers(0, -1, 9223372036854775807, 9223372036854775808, 1 : i32, 2 : index, true, false) : () -> ()
  // CHECK-NEXT: fx.call_function @floats(0.0, -0.0, 1.0e-05, 1.5, nan, inf, -inf, 5.000000e-01 : f32, 0x7f800000 : f32, 0x7e00 : f16)
  fx.call_function @floats(0.0, -0.0, 1.0e-5, 1.5, nan, inf, -inf, 0.5 : f32, 0x7f800000 : f32, 0x7e00 : f16) : () -> ()
  // CHECK-NEXT: fx.call_function @complex(complex(1.0, -0.0), complex(nan, inf))
  fx.call_function @complex(complex(1.0, -0.0), complex(nan, inf)) : () -> ()
  // CHECK-NEXT: fx.call_function @strings("", "a\22b\\\\", "\00\0A", "\E2\82\AC")
  fx.call_function @strings("", "a\"b\5C\\", "\00\n", "€") : () -> ()
  // CHECK-NEXT: fx.call_function @nestings([], [1, [2]], (), (1,), (1, 2), {}, {"a" = 1, 2 = [none]}, slice(none, 3, none), range(0, 4, 1))
  fx.call_function @nestings([], [1, [2]], (), (1,), (1, 2), {}, {"a" = 1, 2 = [none]}, slice(none, 3, none), range(0, 4, 1)) : () -> ()
  // CHECK-NEXT: fx.call_function @words(none, ellipsis, unit, #fx.function<"operator.add">)
  fx.call_function @words(none, ellipsis, unit, #fx.function<"operator.add">) : () -> ()
  // CHECK-NEXT: fx.call_function @torch(torch.float32, torch.strided, torch.channels_last, device("cuda:0"), #torch.dtype<"odd one">)
  fx.call_function @torch(torch.float32, torch.strided, torch.channels_last, device("cuda:0"), #torch.dtype<"odd one">) : () -> ()
  /// Attributes whose own text would read as something else.
  // CHECK-NEXT: fx.call_function @others(attribute(@f::@g), attribute({a = 1 : i64}), attribute(complex<f32>), attribute(none), attribute((f32) -> f32), i32, @region)
  fx.call_function @others(attribute(@f::@g), attribute({a = 1}), attribute(complex<f32>), attribute(none), attribute((f32) -> f32), i32, @region) ({
    fx.output() : () -> ()
  }) : () -> ()
  // CHECK: fx.call_function @keywords(none = 1, "not a name" = 2, device = 3, torch = 4)
  fx.call_function @keywords(none = 1, "not a name" = 2, device = 3, torch = 4) : () -> ()
  // CHECK-NEXT: fx.output() : () -> ()
  fx.output() : () -> ()
}

/// Names are kept as they are written, and made unique where they are not.
// CHECK-LABEL: func.func @names
func.func @names(%x: !fx.value, %x_1: !fx.value) {
  // CHECK-NEXT: %x_1_0 = fx.call_function @f(%x_1)
  %x_1_0 = fx.call_function @f(%x_1) : (!fx.value) -> !fx.value
  // CHECK-NEXT: %y.1 = fx.call_function @f(%x_1_0)
  %y.1 = fx.call_function @f(%x_1_0) : (!fx.value) -> !fx.value
  fx.output(%y.1) : (!fx.value) -> ()
}
