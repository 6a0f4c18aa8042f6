// RUN: fxc-opt %s --split-input-file --pass-pipeline=results-to-arguments | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=results-to-arguments,results-to-arguments | filecheck %s
// RUN: fxc-opt %s --split-input-file -p "results-to-arguments{largest=16}" | filecheck %s
// RUN: fxc-opt %s --split-input-file -p "results-to-arguments{largest=15}" | filecheck %s --check-prefix=LARGE

/// A buffer of 16 bytes is allocated where it is written if it is too large.
// LARGE-LABEL: func.func private @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>)
// LARGE:         %a, %b = func.call @f(%x) {plan.borrows} : (tensor<4xf32>)

/// What a function makes it gets; what it allocates by an operator it still returns. The names of results stay.
// CHECK-LABEL: func.func private @f(%x: tensor<4xf32>, %m: tensor<4xf32>) -> tensor<f32>
// CHECK-NEXT:    torch.aten.exp.out(%x, out = %m)
// CHECK-NEXT:    %s = torch.aten.sum.default(%x)
// CHECK-NEXT:    func.return %s
func.func private @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
  %m = plan.alloc : tensor<4xf32>
  %0 = torch.aten.exp.out(%x, out = %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.sum.default(%x) : (tensor<4xf32>) -> tensor<f32>
  func.return %m, %s : tensor<4xf32>, tensor<f32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %a = plan.alloc : tensor<4xf32>
// CHECK-NEXT:    %b = func.call @f(%x, %a) {plan.borrows} : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
// CHECK-NEXT:    %c = plan.alloc : tensor<4xf32>
// CHECK-NEXT:    %d = func.call @f(%a, %c) {plan.borrows}
// CHECK-NEXT:    plan.free %a
// CHECK-NEXT:    fx.output((%b, %c, %d))
func.func @main(%x: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>, tensor<f32>) {
  %a, %b = func.call @f(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>)
  %c, %d = func.call @f(%a) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>)
  plan.free %a : tensor<4xf32>
  fx.output((%b, %c, %d)) : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> ()
}

// -----

/// Not a view of a buffer, nor one that is returned twice; a view of an argument is the caller's memory.
// CHECK-LABEL: func.func private @f(%x: tensor<4xf32>) -> (tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>)
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %a, %b, %c, %d = func.call @f(%x) : (tensor<4xf32>)
func.func private @f(%x: tensor<4xf32>) -> (tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>) {
  %m = plan.alloc : tensor<4xf32>
  %n = plan.alloc : tensor<4xf32>
  %0 = torch.aten.exp.out(%x, out = %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = torch.aten.exp.out(%x, out = %n) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v = torch.aten.view.default(%m, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  plan.free %m : tensor<4xf32>
  %w = torch.aten.view.default(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  func.return %v, %n, %n, %w : tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>
}
func.func @main(%x: tensor<4xf32>) -> (tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>) {
  %a, %b, %c, %d = func.call @f(%x) : (tensor<4xf32>) -> (tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>)
  fx.output((%a, %b, %c, %d)) : (tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>) -> ()
}

// -----

/// Not where something else calls: another program, or the one who makes the plan.
// CHECK-LABEL: func.func @open(%x: tensor<4xf32>) -> tensor<4xf32>
// CHECK-LABEL: func.func private @once(%x: tensor<4xf32>) -> tensor<4xf32>
func.func @open(%x: tensor<4xf32>) -> tensor<4xf32> {
  %m = plan.alloc : tensor<4xf32>
  %0 = torch.aten.exp.out(%x, out = %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %m : tensor<4xf32>
}
func.func private @once(%x: tensor<4xf32>) -> tensor<4xf32> {
  %m = plan.alloc : tensor<4xf32>
  %0 = torch.aten.exp.out(%x, out = %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %m : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = func.call @open(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = func.call @once(%x) {fx.once} : (tensor<4xf32>) -> tensor<4xf32>
  %c = plan.alloc : tensor<4xf32>
  %0 = torch.aten.add.out(%a, %b, out = %c) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  plan.free %a, %b : tensor<4xf32>, tensor<4xf32>
  fx.output((%c,)) : (tensor<4xf32>) -> ()
}
