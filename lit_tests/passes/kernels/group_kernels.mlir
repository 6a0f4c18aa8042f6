// RUN: fxc-opt %s --split-input-file --pass-pipeline=convert-fusion-to-linalg,schedule,group-kernels,tile | filecheck %s

/// What is independent is one launch: also what stands behind a use, where its operands are known before.
// CHECK-LABEL: func.func @independent
// CHECK-NEXT:    %a, %b = tile.launch @kernel_0(%x, %y)
// CHECK-NEXT:    torch.aten.sin.default(%a)
// CHECK:         schedule = #tile.schedule<"elementwise", stages = [0, 1],
func.func @independent(%x: tensor<4xf32>, %y: tensor<6xf32>) {
  %a = fusion.group ({
    %n = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %n : tensor<4xf32>
  }) -> tensor<4xf32>
  %m = torch.aten.sin.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %b = fusion.group ({
    %n = torch.aten.exp.default(%y) : (tensor<6xf32>) -> tensor<6xf32>
    fusion.yield %n : tensor<6xf32>
  }) -> tensor<6xf32>
  fx.output((%m, %b)) : (tensor<4xf32>, tensor<6xf32>) -> ()
}

// -----

/// What one needs of another comes before.
// CHECK-LABEL: func.func @needs
// CHECK-NEXT:    %a = tile.launch @kernel_0(%x)
// CHECK-NEXT:    torch.aten.sin.default(%a)
// CHECK-NEXT:    tile.launch @kernel_1
func.func @needs(%x: tensor<4xf32>) {
  %a = fusion.group ({
    %n = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %n : tensor<4xf32>
  }) -> tensor<4xf32>
  %m = torch.aten.sin.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %b = fusion.group ({
    %n = torch.aten.exp.default(%m) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %n : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output((%a, %b)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// A large one is worth its launch.
// CHECK-LABEL: func.func @large
// CHECK-NEXT:    tile.launch @kernel_0
// CHECK-NEXT:    tile.launch @kernel_1
func.func @large(%x: tensor<4xf32>, %y: tensor<40000xf32>) {
  %a = fusion.group ({
    %n = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %n : tensor<4xf32>
  }) -> tensor<4xf32>
  %b = fusion.group ({
    %n = torch.aten.exp.default(%y) : (tensor<40000xf32>) -> tensor<40000xf32>
    fusion.yield %n : tensor<40000xf32>
  }) -> tensor<40000xf32>
  fx.output((%a, %b)) : (tensor<4xf32>, tensor<40000xf32>) -> ()
}

// -----

/// On a GPU it is still small.
// CHECK-LABEL: func.func @gpu
// CHECK-NEXT:    tile.launch @kernel_0(%x, %y)
builtin.module attributes {fxc.target = #target.gpu} {
func.func @gpu(%x: tensor<4xf32>, %y: tensor<40000xf32>) {
  %a = fusion.group ({
    %n = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %n : tensor<4xf32>
  }) -> tensor<4xf32>
  %b = fusion.group ({
    %n = torch.aten.exp.default(%y) : (tensor<40000xf32>) -> tensor<40000xf32>
    fusion.yield %n : tensor<40000xf32>
  }) -> tensor<40000xf32>
  fx.output((%a, %b)) : (tensor<4xf32>, tensor<40000xf32>) -> ()
}
}

// -----

/// An op that writes stands between: the second would read what was there before.
// CHECK-LABEL: func.func @written
// CHECK-NEXT:    tile.launch @kernel_0
// CHECK-NEXT:    torch.aten.copy_.default
// CHECK-NEXT:    tile.launch @kernel_1
func.func @written(%x: tensor<4xf32>, %y: tensor<6xf32>, %z: tensor<6xf32>) {
  %a = fusion.group ({
    %n = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %n : tensor<4xf32>
  }) -> tensor<4xf32>
  %w = torch.aten.copy_.default(%y, %z) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  %b = fusion.group ({
    %n = torch.aten.exp.default(%y) : (tensor<6xf32>) -> tensor<6xf32>
    fusion.yield %n : tensor<6xf32>
  }) -> tensor<6xf32>
  fx.output((%a, %b)) : (tensor<4xf32>, tensor<6xf32>) -> ()
}

// -----

/// Kernels of two kinds.
// CHECK-LABEL: func.func @kinds
// CHECK-NEXT:    tile.launch @kernel_0
// CHECK-NEXT:    tile.launch @kernel_1
func.func @kinds(%x: tensor<4xf32>, %y: tensor<6x8xf32>) {
  %a = fusion.group ({
    %n = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %n : tensor<4xf32>
  }) -> tensor<4xf32>
  %b = fusion.group ({
    %n = torch.aten.sum.dim_IntList(%y, [1]) : (tensor<6x8xf32>) -> tensor<6xf32>
    fusion.yield %n : tensor<6xf32>
  }) -> tensor<6xf32>
  fx.output((%a, %b)) : (tensor<4xf32>, tensor<6xf32>) -> ()
}

// -----

/// Several kernels of one group stay.
// CHECK-LABEL: func.func @several
// CHECK-COUNT-3: tile.launch
func.func @several(%x: tensor<4xf32>, %y: tensor<6x4xf32>) {
  %a = fusion.group ({
    %n = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %n : tensor<4xf32>
  }) -> tensor<4xf32>
  %b, %c = fusion.group ({
    %n = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %m = torch.aten.mul.Tensor(%y, %n) : (tensor<6x4xf32>, tensor<4xf32>) -> tensor<6x4xf32>
    fusion.yield %n, %m : tensor<4xf32>, tensor<6x4xf32>
  }) -> (tensor<4xf32>, tensor<6x4xf32>)
  fx.output((%a, %b, %c)) : (tensor<4xf32>, tensor<4xf32>, tensor<6x4xf32>) -> ()
}

// -----

/// Single elements, which the others read, are one kernel before them.
// CHECK-LABEL: func.func @single
// CHECK-NEXT:    %s, %t = tile.launch @kernel_0(%a, %b)
// CHECK-NEXT:    %u, %v = tile.launch @kernel_1(%x, %s, %y, %t)
// CHECK-NEXT:    fx.output
func.func @single(%a: tensor<f32>, %b: tensor<f32>, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  %s = fusion.group ({
    %n = torch.aten.neg.default(%a) : (tensor<f32>) -> tensor<f32>
    fusion.yield %n : tensor<f32>
  }) -> tensor<f32>
  %u = fusion.group ({
    %n = torch.aten.mul.Tensor(%x, %s) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    fusion.yield %n : tensor<4xf32>
  }) -> tensor<4xf32>
  %t = fusion.group ({
    %n = torch.aten.neg.default(%b) : (tensor<f32>) -> tensor<f32>
    fusion.yield %n : tensor<f32>
  }) -> tensor<f32>
  %v = fusion.group ({
    %n = torch.aten.mul.Tensor(%y, %t) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    fusion.yield %n : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output((%u, %v)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}
