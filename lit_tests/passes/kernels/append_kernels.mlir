// RUN: fxc-opt %s --split-input-file --pass-pipeline=convert-fusion-to-linalg,schedule,append-kernels | filecheck %s

/// A sum of what the rows gave: work for the last program of the kernel of the rows. What both read, and what others read, stays.
// CHECK-LABEL: func.func @rows
// CHECK:         %a, %b = fusion.group ({
// CHECK:           fusion.yield {{%.+}}, {{%.+}} : tensor<64xf32>, tensor<f32>
// CHECK-NEXT:    }) {tile.schedule = [#tile.schedule<"inner", stages = [0]{{.*}}>, #tile.schedule<"inner", stages = [1]{{.*}}, program = "last">]
// CHECK-NOT:     fusion.group
// CHECK:         fx.output((%a, %b))
func.func @rows(%x: tensor<64x100xf32>, %y: tensor<64xf32>) {
  %a = fusion.group ({
    %r = torch.aten.sum.dim_IntList(%x, [1]) : (tensor<64x100xf32>) -> tensor<64xf32>
    fusion.yield %r : tensor<64xf32>
  }) -> tensor<64xf32>
  %b = fusion.group ({
    %m = torch.aten.mul.Tensor(%a, %y) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %s = torch.aten.sum.default(%m) : (tensor<64xf32>) -> tensor<f32>
    fusion.yield %s : tensor<f32>
  }) -> tensor<f32>
  fx.output((%a, %b)) : (tensor<64xf32>, tensor<f32>) -> ()
}

// -----

/// What the second reads is made between them: then the first waits, where nothing else needs it before.
// CHECK-LABEL: func.func @between
// CHECK-NEXT:    %y = torch.aten.mm.default
// CHECK-NEXT:    %b = fusion.group ({
// CHECK:         }) {tile.schedule = [#tile.schedule<"elementwise"{{.*}}>, #tile.schedule<"inner"{{.*}}program = "last">]
func.func @between(%x: tensor<64x64xf32>) {
  %a = fusion.group ({
    %r = torch.aten.neg.default(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    fusion.yield %r : tensor<64x64xf32>
  }) -> tensor<64x64xf32>
  %y = torch.aten.mm.default(%x, %x) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = fusion.group ({
    %m = torch.aten.mul.Tensor(%a, %y) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %s = torch.aten.sum.default(%m) : (tensor<64x64xf32>) -> tensor<f32>
    fusion.yield %s : tensor<f32>
  }) -> tensor<f32>
  fx.output(%b) : (tensor<f32>) -> ()
}

// -----

/// Neither where the first is needed before the second, nor where memory is written between them, nor where the second is much.
// CHECK-LABEL: func.func @needed
// CHECK-NOT:     program = "last"
// CHECK-LABEL: func.func @written
// CHECK-NOT:     program = "last"
// CHECK-LABEL: func.func @much
// CHECK-NOT:     program = "last"
// CHECK-LABEL: func.func @empty
// CHECK-NOT:     program = "last"
func.func @needed(%x: tensor<64x64xf32>) {
  %a = fusion.group ({
    %r = torch.aten.neg.default(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    fusion.yield %r : tensor<64x64xf32>
  }) -> tensor<64x64xf32>
  %y = torch.aten.mm.default(%a, %x) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = fusion.group ({
    %m = torch.aten.mul.Tensor(%a, %y) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %s = torch.aten.sum.default(%m) : (tensor<64x64xf32>) -> tensor<f32>
    fusion.yield %s : tensor<f32>
  }) -> tensor<f32>
  fx.output(%b) : (tensor<f32>) -> ()
}
func.func @written(%x: tensor<64x64xf32>, %z: tensor<64x64xf32>) {
  %a = fusion.group ({
    %r = torch.aten.neg.default(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    fusion.yield %r : tensor<64x64xf32>
  }) -> tensor<64x64xf32>
  %w = torch.aten.add_.Scalar(%x, 1) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = fusion.group ({
    %m = torch.aten.mul.Tensor(%a, %x) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %s = torch.aten.sum.default(%m) : (tensor<64x64xf32>) -> tensor<f32>
    fusion.yield %s : tensor<f32>
  }) -> tensor<f32>
  fx.output(%b) : (tensor<f32>) -> ()
}
func.func @much(%x: tensor<400x400xf32>) {
  %a = fusion.group ({
    %r = torch.aten.neg.default(%x) : (tensor<400x400xf32>) -> tensor<400x400xf32>
    fusion.yield %r : tensor<400x400xf32>
  }) -> tensor<400x400xf32>
  %b = fusion.group ({
    %s = torch.aten.sum.default(%a) : (tensor<400x400xf32>) -> tensor<f32>
    fusion.yield %s : tensor<f32>
  }) -> tensor<f32>
  fx.output(%b) : (tensor<f32>) -> ()
}
func.func @empty(%x: tensor<0x4xf32>) {
  %a = fusion.group ({
    %r = torch.aten.sum.dim_IntList(%x, [1]) : (tensor<0x4xf32>) -> tensor<0xf32>
    fusion.yield %r : tensor<0xf32>
  }) -> tensor<0xf32>
  %b = fusion.group ({
    %s = torch.aten.sum.default(%a) : (tensor<0xf32>) -> tensor<f32>
    fusion.yield %s : tensor<f32>
  }) -> tensor<f32>
  fx.output(%b) : (tensor<f32>) -> ()
}

// -----

/// Of one group: a sum in parts, and what is made of it.
// CHECK-LABEL: func.func @mean
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0]{{.*}}, parts = 4>, #tile.schedule<"elementwise", stages = [1]{{.*}}, program = "last">]
builtin.module attributes {fxc.target = #target.cpu<threads = 4>} {
  func.func @mean(%x: tensor<1000x1000xf32>) {
    %a = fusion.group ({
      %r = torch.aten.mean.default(%x) : (tensor<1000x1000xf32>) -> tensor<f32>
      fusion.yield %r : tensor<f32>
    }) -> tensor<f32>
    fx.output(%a) : (tensor<f32>) -> ()
  }
}

// -----

/// On a GPU, as few steps as a launch takes, by lanes that the kernel has or that are worth having.
// CHECK-LABEL: func.func @gpu
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0], lanes = 128{{.*}}>, #tile.schedule<"inner", stages = [1], lanes = 512, unroll = 1, block = 1, program = "last">]
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0], lanes = 128{{.*}}>]
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0], lanes = 2048{{.*}}parts = 4>]
builtin.module attributes {fxc.target = #target.gpu} {
  func.func @gpu(%x: tensor<4096x100xf32>, %y: tensor<8192x100xf32>) {
    %a = fusion.group ({
      %r = torch.aten.sum.dim_IntList(%x, [1]) : (tensor<4096x100xf32>) -> tensor<4096xf32>
      fusion.yield %r : tensor<4096xf32>
    }) -> tensor<4096xf32>
    %b = fusion.group ({
      %r = torch.aten.sum.default(%a) : (tensor<4096xf32>) -> tensor<f32>
      fusion.yield %r : tensor<f32>
    }) -> tensor<f32>
    %c = fusion.group ({
      %r = torch.aten.sum.dim_IntList(%y, [1]) : (tensor<8192x100xf32>) -> tensor<8192xf32>
      fusion.yield %r : tensor<8192xf32>
    }) -> tensor<8192xf32>
    %d = fusion.group ({
      %r = torch.aten.sum.default(%c) : (tensor<8192xf32>) -> tensor<f32>
      fusion.yield %r : tensor<f32>
    }) -> tensor<f32>
    fx.output((%b, %d)) : (tensor<f32>, tensor<f32>) -> ()
  }
}
