// RUN: fxc-opt %s --split-input-file --pass-pipeline=split-joint | filecheck %s
// RUN: fxc-opt %s --split-input-file -p split-joint --remarks=split-joint -o %t 2>&1 | filecheck %s --check-prefix=WHY

/// Results, saved tensors, then saved numbers; the backward takes the numbers first, and the tangents last.
// CHECK-LABEL: builtin.module @forward {
// CHECK-NEXT:    func.func @main(%n: !torch.int<"s0">, %x: tensor<?xf32, #torch.meta<sizes = ["s0"]>>) ->
// CHECK-NEXT:      %t = torch.aten.exp.default(%x) :
// CHECK-NEXT:      %y = torch.aten.sum.default(%t) :
// CHECK-NEXT:      fx.output((%y, %t, %n)) :
// CHECK:       builtin.module @backward {
// CHECK-NEXT:    func.func @main(%n: !torch.int<"s0">, %t: tensor<?xf32, #torch.meta<sizes = ["s0"]>>, %d: tensor<f32> {autodiff.tangent}) ->
// CHECK-NEXT:      %e = torch.aten.expand.default(%d, [%n]) :
// CHECK-NEXT:      %g = torch.aten.mul.Tensor(%e, %t) :
// CHECK-NEXT:      fx.output((none, %g)) :
// WHY: split-joint: saves a number, because %n is read by aten.expand.default
// WHY: split-joint: saves memory of unknown size, because %t is read by aten.mul.Tensor: %t = aten.exp.default
func.func @sizes_last(%n: !torch.int<"s0">, %x: tensor<?xf32, #torch.meta<sizes = ["s0"]>>, %d: tensor<f32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %t = torch.aten.exp.default(%x) {autodiff.saved = array<i64: 0>} : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %y = torch.aten.sum.default(%t) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<f32>
  %e = torch.aten.expand.default(%d, [%n]) : (tensor<f32>, !torch.int<"s0">) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %g = torch.aten.mul.Tensor(%e, %t) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  fx.output([%y, none, %g]) : (tensor<f32>, tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> ()
}

// -----

/// A recomputed operation is in both parts. A mark of a value that the backward does not read saves nothing.
// CHECK-LABEL: builtin.module @forward {
// CHECK:           %a = torch.aten.sigmoid.default(%x) :
// CHECK-NEXT:      %b = torch.aten.cos.default(%a) :
// CHECK-NEXT:      %y = torch.aten.exp.default(%b) :
// CHECK-NEXT:      fx.output((%y, %a)) :
// CHECK:         func.func @main(%a: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent}) ->
// CHECK-NEXT:      %b = torch.aten.cos.default(%a) :
// CHECK-NEXT:      %e = torch.aten.mul.Tensor(%d, %b) :
// WHY: split-joint: saves 16 bytes, because %a is read by aten.cos.default: %a = aten.sigmoid.default
func.func @recomputed(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %a = torch.aten.sigmoid.default(%x) {autodiff.saved = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.cos.default(%a) {autodiff.recomputed} : (tensor<4xf32>) -> tensor<4xf32>
  %y = torch.aten.exp.default(%b) {autodiff.saved = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.mul.Tensor(%d, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.sigmoid_backward.default(%e, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output([%y, %g]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// The backward samples from the state that the forward saved.
// CHECK-LABEL: builtin.module @forward {
// CHECK:           %state, %r = torch.higher_order.run_and_save_rng_state(#fx.function<"torch.ops.aten.rand_like.default">, %x) :
// CHECK:           fx.output((%y, %x, %state)) :
// CHECK:         func.func @main(%x: tensor<4xf32>, %state: tensor<5056xui8>, %d: tensor<4xf32> {autodiff.tangent}) ->
// CHECK-NEXT:      %r = torch.higher_order.run_with_rng_state(%state, #fx.function<"torch.ops.aten.rand_like.default">, %x) :
// CHECK-NEXT:      %g = torch.aten.mul.Tensor(%d, %r) :
func.func @random(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %r = torch.aten.rand_like.default(%x) {autodiff.recomputed} : (tensor<4xf32>) -> tensor<4xf32>
  %y = torch.aten.mul.Tensor(%x, %r) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.mul.Tensor(%d, %r) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output([%y, %g]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// The forward overwrites %x, and its caller %z: copies of them are saved. Each part writes what is marked as its.
// CHECK-LABEL: builtin.module @forward {
// CHECK-NEXT:    func.func @main(%x: tensor<4xf32>, %z: tensor<4xf32>, %c: tensor<4xf32>) -> (tensor<4xf32> {fx.mutates = 0 : i64}, tensor<4xf32>,
// CHECK-NEXT:      [[X:%[a-z0-9_]+]] = torch.aten.clone.default(%x) :
// CHECK-NEXT:      [[Z:%[a-z0-9_]+]] = torch.aten.clone.default(%z) :
// CHECK:           fx.output((%n, %y, [[X]], [[Z]], %c)) :
// CHECK:         func.func @main(%x: tensor<4xf32>, %z: tensor<4xf32>, %c: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent}) -> (tensor<4xf32> {fx.mutates = 2 : i64}, tensor<4xf32>) {
// CHECK:           fx.output((%m, %h)) :
func.func @written(%x: tensor<4xf32>, %z: tensor<4xf32> {autodiff.written}, %c: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
-> (tensor<4xf32> {fx.mutates = 0 : i64}, tensor<4xf32> {fx.mutates = 2 : i64}, tensor<4xf32>, tensor<4xf32>)
attributes {autodiff.forward_results = 1 : i64} {
  %n = torch.aten.add.Tensor(%x, 1) : (tensor<4xf32>) -> tensor<4xf32>
  %y = torch.aten.mul.Tensor(%x, %z) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.mul.Tensor(%d, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %h = torch.aten.mul.Tensor(%g, %z) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %m = torch.aten.add.Tensor(%d, 1) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%n, %m, %y, %h)) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// What becomes an argument is overwritten by the next call: a copy of it is saved.
// CHECK-LABEL: builtin.module @forward {
// CHECK:           [[Y:%[a-z0-9_]+]] = torch.aten.clone.default(%y) :
// CHECK:           [[N:%[a-z0-9_]+]] = torch.aten.clone.default(%n) :
// CHECK:           fx.output((%n, %y, %e, [[Y]], [[N]])) :
func.func @new_values(%x: tensor<4xf32>, %z: tensor<4xf32>, %y: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
-> (tensor<4xf32> {fx.mutates = 0 : i64}, tensor<4xf32> {fx.mutates = 1 : i64}, tensor<4xf32>, tensor<4xf32>)
attributes {autodiff.forward_results = 1 : i64} {
  %n = torch.aten.add.Tensor(%x, 1) {autodiff.saved = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.mul.Tensor(%n, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.mul.Tensor(%d, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %h = torch.aten.mul.Tensor(%g, %n) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%n, %y, %e, %h)) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// The backward checks the conditions on sizes, so it takes the numbers in them.
// CHECK:         builtin.module @backward attributes {torch.symbols = {{.*}}, torch.conditions = ["s0 + n0 >= 0"]} {
// CHECK-NEXT:      func.func @main(%k: !torch.int<"n0">, %s: !torch.int<"s0">, %d: tensor<?xf32,
builtin.module attributes {torch.symbols = {n0 = {hint = 3 : i64}, s0 = {hint = 5 : i64, min = 2 : i64}}, torch.conditions = ["s0 + n0 >= 0"]} {
  func.func @main(%s: !torch.int<"s0">, %u: !torch.int<"s1">, %k: !torch.int<"n0">, %x: tensor<?xf32, #torch.meta<sizes = ["s0"]>>, %d: tensor<?xf32, #torch.meta<sizes = ["n0 + s0"]>> {autodiff.tangent})
  attributes {autodiff.forward_results = 1 : i64} {
    %y = torch.aten.constant_pad_nd.default(%x, [0, %k], 0.0) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, !torch.int<"n0">) -> tensor<?xf32, #torch.meta<sizes = ["n0 + s0"]>>
    %n = fx.call_function @operator.neg(%k) : (!torch.int<"n0">) -> !torch.int<"-n0">
    %g = torch.aten.constant_pad_nd.default(%d, [0, %n]) : (tensor<?xf32, #torch.meta<sizes = ["n0 + s0"]>>, !torch.int<"-n0">) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
    fx.output([%y, %g]) : (tensor<?xf32, #torch.meta<sizes = ["n0 + s0"]>>, tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> ()
  }
}

// -----

/// An operation in neither part by what it reads is where it is marked.
// CHECK-LABEL: builtin.module @forward {
// CHECK:           torch.aten.exp.default(%x) :
// CHECK-NOT:       torch.aten.rand_like
// CHECK:       builtin.module @backward {
// CHECK:           torch.aten.rand_like.default(%x) :
func.func @marked_parts(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %y = torch.aten.exp.default(%x) {autodiff.part = "forward"} : (tensor<4xf32>) -> tensor<4xf32>
  %r = torch.aten.rand_like.default(%x) {autodiff.part = "backward"} : (tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.mul.Tensor(%d, %r) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output([%x, %g]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// No joint graph.
// CHECK-LABEL: func.func @plain(
// CHECK-NEXT:    torch.aten.exp.default(%x) :
func.func @plain(%x: tensor<4xf32>) {
  %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%y) : (tensor<4xf32>) -> ()
}

// -----

/// A tensor of the program that the forward overwrites: the backward takes a copy of the old value as an input.
// CHECK-LABEL: builtin.module @forward {
// CHECK-NEXT:    func.func @main(%w: tensor<4xf32> {fx.kind = "buffer", fx.name = "w"}) ->
// CHECK-NEXT:      %[[OLD:.*]] = torch.aten.clone.default(%w) :
// CHECK:           fx.output((%u, %y, %[[OLD]])) :
// CHECK:         func.func @main(%w: tensor<4xf32> {fx.kind = "input", fx.name = "w"}, %d: tensor<4xf32> {
// CHECK-NEXT:      %g = torch.aten.mul.Tensor(%d, %w) :
func.func @overwritten_state(%w: tensor<4xf32> {fx.kind = "buffer", fx.name = "w"}, %d: tensor<4xf32> {autodiff.tangent, fx.kind = "input", fx.name = "d"})
-> (tensor<4xf32> {fx.mutates = 0 : i64}, tensor<4xf32>, tensor<4xf32>)
attributes {autodiff.forward_results = 1 : i64} {
  %y = torch.aten.exp.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %u = torch.aten.neg.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.mul.Tensor(%d, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output([%u, %y, %g]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Both parts have a tensor of the program that is not overwritten.
// CHECK-LABEL: builtin.module @forward {
// CHECK:           fx.output((%y,)) :
// CHECK:         func.func @main(%w: tensor<4xf32> {fx.kind = "buffer", fx.name = "w"}, %d: tensor<4xf32> {
func.func @state(%w: tensor<4xf32> {fx.kind = "buffer", fx.name = "w"}, %d: tensor<4xf32> {autodiff.tangent, fx.kind = "input", fx.name = "d"})
attributes {autodiff.forward_results = 1 : i64} {
  %y = torch.aten.exp.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.mul.Tensor(%d, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output([%y, %g]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}
