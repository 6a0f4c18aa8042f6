// RUN: fxc-opt %s --pass-pipeline=convert-fusion-to-linalg,schedule,tile --split-input-file | filecheck %s

/// Chunks of one loop through memory, which is as long as the size says.
// CHECK-LABEL: func.func @elementwise
// CHECK-NEXT:    %s0 = torch.aten.sym_size.int(%x, 0)
// CHECK-NEXT:    %s = tile.launch @kernel_0(%x, %s0)
// CHECK:       tile.kernel @kernel_0
// CHECK-SAME:    %s0: index
// CHECK-SAME:    grid = affine_map<(d0) -> (((d0 * 3) ceildiv 4096))>
// CHECK:         %[[ALL:.*]] = arith.muli %s0, %{{.*}} : index
// CHECK:         arith.minsi
// CHECK:         tile.mask
func.func @elementwise(%x: tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>) {
  %s = fusion.group ({
    %a = torch.aten.abs.default(%x) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>) -> tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>
    %b = torch.aten.neg.default(%a) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>) -> tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>
    fusion.yield %b : tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>
  }) -> tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>
  fx.output(%s) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>) -> ()
}

// -----

/// A gradient that is undefined has no size.
// CHECK-LABEL: func.func @undefined
// CHECK-NEXT:    %s0 = torch.aten.sym_size.int(%x, 0)
func.func @undefined(%d: tensor<?xf32, #torch.meta<sizes = ["s0"]>> {autodiff.undefined}, %x: tensor<?xf32, #torch.meta<sizes = ["s0"]>> {autodiff.defined}) {
  %s = fusion.group ({
    %a = torch.aten.abs.default(%x) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
    fusion.yield %a : tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  }) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  fx.output(%s) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> ()
}

// -----

/// Rows of known length, of a number that the caller gives. No parts: how many rows there are is not known.
// CHECK-LABEL: func.func @rows
// CHECK-NEXT:    %s = tile.launch @kernel_0(%x, %n)
// CHECK:       grid = affine_map<(d0) -> (d0)>
// CHECK-SAME:  #tile.schedule<"inner", stages = [0], lanes = 4, unroll = 4, block = 1>
func.func @rows(%x: tensor<?x100000xf32, #torch.meta<sizes = ["s0", 100000]>>, %n: !torch.int<"s0">) {
  %s = fusion.group ({
    %a = torch.aten.sum.dim_IntList(%x, [1]) : (tensor<?x100000xf32, #torch.meta<sizes = ["s0", 100000]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
    fusion.yield %a : tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  }) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  fx.output(%s) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> ()
}

// -----

/// On a GPU, what is made for a pointer is no hint for a number.
// CHECK-LABEL: func.func @gpu
// CHECK:       tile.divisible = 16 : i64}, %s0: index {tile.size = "s0"})
builtin.module attributes {fxc.target = #target.gpu} {
  func.func @gpu(%x: tensor<?xf32, #torch.meta<sizes = ["s0"], device = "cuda:0">>) {
    %s = fusion.group ({
      %a = torch.aten.abs.default(%x) : (tensor<?xf32, #torch.meta<sizes = ["s0"], device = "cuda:0">>) -> tensor<?xf32, #torch.meta<sizes = ["s0"], device = "cuda:0">>
      %b = torch.aten.neg.default(%a) : (tensor<?xf32, #torch.meta<sizes = ["s0"], device = "cuda:0">>) -> tensor<?xf32, #torch.meta<sizes = ["s0"], device = "cuda:0">>
      fusion.yield %b : tensor<?xf32, #torch.meta<sizes = ["s0"], device = "cuda:0">>
    }) -> tensor<?xf32, #torch.meta<sizes = ["s0"], device = "cuda:0">>
    fx.output(%s) : (tensor<?xf32, #torch.meta<sizes = ["s0"], device = "cuda:0">>) -> ()
  }
}

// -----

/// Where the size is likely a multiple of 16, code is made for that.
// CHECK-LABEL: func.func @even
// CHECK:       %s0: index {tile.size = "s0", tile.divisible = 16 : i64})
builtin.module attributes {fxc.target = #target.gpu, torch.symbols = {s0 = {hint = 64 : i64}}} {
  func.func @even(%x: tensor<8x?xf32, #torch.meta<sizes = [8, "s0"], device = "cuda:0">>) {
    %s = fusion.group ({
      %a = torch.aten.neg.default(%x) : (tensor<8x?xf32, #torch.meta<sizes = [8, "s0"], device = "cuda:0">>) -> tensor<8x?xf32, #torch.meta<sizes = [8, "s0"], device = "cuda:0">>
      fusion.yield %a : tensor<8x?xf32, #torch.meta<sizes = [8, "s0"], device = "cuda:0">>
    }) -> tensor<8x?xf32, #torch.meta<sizes = [8, "s0"], device = "cuda:0">>
    fx.output(%s) : (tensor<8x?xf32, #torch.meta<sizes = [8, "s0"], device = "cuda:0">>) -> ()
  }
}
