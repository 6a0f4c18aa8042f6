// RUN: fxc-opt %s --split-input-file --pass-pipeline=convert-fusion-to-linalg,tile-matmul | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=convert-fusion-to-linalg,tile-matmul{choose=all} | filecheck %s --check-prefix=ALL

/// A product with what is before and behind it: one kernel. Rows of 20 do not fill the block, so lanes beyond are zero.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %u = tile.launch @matmul_0(%x, %w, %b) : (tensor<20x16xf32>, tensor<16x16xf32>, tensor<16xf32>) -> tensor<20x16xf32>
// CHECK-NEXT:    fx.output
// CHECK:       tile.kernel @matmul_0
// CHECK-SAME:    grid = array<i64: 2>, tile.source = ["e = aten.exp.default", "m = aten.mm.default", "a = aten.add.Tensor"]
// CHECK:         tile.mask %row
// CHECK:         scf.for %inner
// CHECK:           tile.load %x
// CHECK:           math.exp
// CHECK:           tile.select
// CHECK:           tile.load %w
// CHECK:           tile.dot {{.*}} : vector<16x16xf32>, vector<16x16xf32> -> vector<16x16xf32>
// CHECK:         tile.load %b
// CHECK:         arith.addf
// CHECK:         tile.store
func.func @main(%x: tensor<20x16xf32>, %w: tensor<16x16xf32>, %b: tensor<16xf32>) {
  %g = fusion.group ({
    %e = torch.aten.exp.default(%x) : (tensor<20x16xf32>) -> tensor<20x16xf32>
    fusion.yield %e : tensor<20x16xf32>
  }) -> tensor<20x16xf32>
  %m = torch.aten.mm.default(%g, %w) {tile.blocks = array<i64: 16, 16, 16>} : (tensor<20x16xf32>, tensor<16x16xf32>) -> tensor<20x16xf32>
  %u = fusion.group ({
    %a = torch.aten.add.Tensor(%m, %b) : (tensor<20x16xf32>, tensor<16xf32>) -> tensor<20x16xf32>
    fusion.yield %a : tensor<20x16xf32>
  }) -> tensor<20x16xf32>
  fx.output(%u) : (tensor<20x16xf32>) -> ()
}

// -----

/// Not asked for: the library's.
// CHECK-LABEL: func.func @library
// CHECK-NEXT:    torch.aten.mm.default
// ALL-LABEL:   func.func @library
// ALL-NEXT:      tile.launch @matmul_0
func.func @library(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) {
  %m = torch.aten.mm.default(%x, %w) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  fx.output(%m) : (tensor<32x32xf32>) -> ()
}

// -----

/// A group that adds up is a kernel of its own; so is one that takes the rows in another order than the product's.
// ALL-LABEL:   func.func @separate
// ALL-NEXT:      tile.launch @matmul_0
// ALL-NEXT:      fusion.group
func.func @separate(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) {
  %m = torch.aten.mm.default(%x, %w) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %u = fusion.group ({
    %a = torch.aten.sum.dim_IntList(%m, [1]) : (tensor<32x32xf32>) -> tensor<32xf32>
    fusion.yield %a : tensor<32xf32>
  }) -> tensor<32xf32>
  fx.output(%u) : (tensor<32xf32>) -> ()
}

// -----

/// The product is read before the group: the launch could not stand there.
// ALL-LABEL:   func.func @early
// ALL-NEXT:      tile.launch @matmul_0
// ALL-NEXT:      torch.aten.sort.default
// ALL-NEXT:      fusion.group
func.func @early(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) {
  %m = torch.aten.mm.default(%x, %w) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %s, %i = torch.aten.sort.default(%m) : (tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xi64>)
  %u = fusion.group ({
    %a = torch.aten.add.Tensor(%m, %s) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    fusion.yield %a : tensor<32x32xf32>
  }) -> tensor<32x32xf32>
  fx.output((%u, %i)) : (tensor<32x32xf32>, tensor<32x32xi64>) -> ()
}

// -----

/// Read behind the group too: the kernel gives both.
// ALL-LABEL:   func.func @both
// ALL-NEXT:      %u, %m = tile.launch @matmul_0(%x, %w)
// ALL-NEXT:      fx.output((%u, %m))
func.func @both(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) {
  %m = torch.aten.mm.default(%x, %w) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %u = fusion.group ({
    %a = torch.aten.relu.default(%m) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    fusion.yield %a : tensor<32x32xf32>
  }) -> tensor<32x32xf32>
  fx.output((%u, %m)) : (tensor<32x32xf32>, tensor<32x32xf32>) -> ()
}

// -----

/// A factor that others read too is made once, before.
// ALL-LABEL:   func.func @factor
// ALL-NEXT:      fusion.group
// ALL:           tile.launch @matmul_0(%g, %w)
func.func @factor(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) {
  %g = fusion.group ({
    %e = torch.aten.exp.default(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    fusion.yield %e : tensor<32x32xf32>
  }) -> tensor<32x32xf32>
  %m = torch.aten.mm.default(%g, %w) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  fx.output((%g, %m)) : (tensor<32x32xf32>, tensor<32x32xf32>) -> ()
}

// -----

/// Integers, float64, empty and unknown sizes: the library's.
// ALL-LABEL:   func.func @refused
// ALL-COUNT-4:   torch.aten.mm.default
// ALL-NOT:       tile.launch
func.func @refused(%i: tensor<32x32xi64>, %d: tensor<32x32xf64>, %e: tensor<32x0xf32>, %f: tensor<0x32xf32>, %s: tensor<?x32xf32, #torch.meta<sizes = ["s0", 32]>>, %w: tensor<32x32xf32>) {
  %m = torch.aten.mm.default(%i, %i) : (tensor<32x32xi64>, tensor<32x32xi64>) -> tensor<32x32xi64>
  %n = torch.aten.mm.default(%d, %d) : (tensor<32x32xf64>, tensor<32x32xf64>) -> tensor<32x32xf64>
  %o = torch.aten.mm.default(%e, %f) : (tensor<32x0xf32>, tensor<0x32xf32>) -> tensor<32x32xf32>
  %p = torch.aten.mm.default(%s, %w) : (tensor<?x32xf32, #torch.meta<sizes = ["s0", 32]>>, tensor<32x32xf32>) -> tensor<?x32xf32, #torch.meta<sizes = ["s0", 32]>>
  fx.output((%m, %n, %o, %p)) : (tensor<32x32xi64>, tensor<32x32xf64>, tensor<32x32xf32>, tensor<?x32xf32, #torch.meta<sizes = ["s0", 32]>>) -> ()
}

// -----

/// What the first group reads is written before the product, and what the product reads before the second: three kernels.
// ALL-LABEL:   func.func @written
// ALL-NEXT:      fusion.group
// ALL:           torch.aten.zero_.default(%x)
// ALL-NEXT:      tile.launch @matmul_0
// ALL-NEXT:      torch.aten.zero_.default(%w)
// ALL-NEXT:      fusion.group
func.func @written(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) {
  %g = fusion.group ({
    %e = torch.aten.exp.default(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    fusion.yield %e : tensor<32x32xf32>
  }) -> tensor<32x32xf32>
  %y = torch.aten.zero_.default(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %m = torch.aten.mm.default(%g, %w) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %z = torch.aten.zero_.default(%w) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %u = fusion.group ({
    %a = torch.aten.neg.default(%m) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    fusion.yield %a : tensor<32x32xf32>
  }) -> tensor<32x32xf32>
  fx.output(%u) : (tensor<32x32xf32>) -> ()
}
