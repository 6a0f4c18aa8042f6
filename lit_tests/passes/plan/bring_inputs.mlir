// RUN: fxc-opt %s --split-input-file --pass-pipeline=bring-inputs | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=bring-inputs,bring-inputs | filecheck %s

/// Inputs are read through what brings them; weights, numbers, and inputs that are written, through a view too, are not.
// CHECK-LABEL: builtin.module
// CHECK:         func.func @main(%x: tensor<4xf32> {fx.kind = "input", fx.name = "x", fx.moves}, %w: tensor<4xf32> {fx.kind = "parameter", fx.name = "w"}, %n: !torch.int {fx.kind = "input", fx.name = "n"}, %y: tensor<4xf32> {fx.kind = "input", fx.name = "y"})
// CHECK-NEXT:      %[[X:[^ ]+]] = plan.bring %x : tensor<4xf32> to tensor<4xf32>
// CHECK-NOT:       plan.bring
// CHECK:           torch.aten.add.out(%[[X]], %w, out = %b)
func.func @main(%x: tensor<4xf32> {fx.kind = "input", fx.name = "x"}, %w: tensor<4xf32> {fx.kind = "parameter", fx.name = "w"}, %n: !torch.int {fx.kind = "input", fx.name = "n"}, %y: tensor<4xf32> {fx.kind = "input", fx.name = "y"}) -> tensor<4xf32> {
  %b = plan.alloc : tensor<4xf32>
  %0 = torch.aten.add.out(%x, %w, out = %b) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v = torch.aten.view.default(%y, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  %1 = torch.aten.zero_.default(%v) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output(%b) : (tensor<4xf32>) -> ()
}

// -----

/// A function that is no plan stays.
// CHECK-LABEL: builtin.module
// CHECK-NOT:     plan.bring
func.func @main(%x: tensor<4xf32> {fx.kind = "input", fx.name = "x"}) -> tensor<4xf32> {
  %r = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%r) : (tensor<4xf32>) -> ()
}
