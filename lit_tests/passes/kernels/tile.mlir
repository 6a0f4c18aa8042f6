// RUN: fxc-opt %s --split-input-file --pass-pipeline=convert-fusion-to-linalg,schedule,tile | filecheck %s

/// Loops that go through memory in even steps are one; full vectors have no mask.
// CHECK-LABEL: func.func @even
// CHECK-NEXT:    %s = tile.launch @kernel_0(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK:         tile.kernel @kernel_0(%x: !tile.ptr<f32> {tile.access = "read", tile.elements = 32 : i64}, %a: !tile.ptr<f32> {tile.access = "write", tile.elements = 32 : i64}) attributes {grid = array<i64: 1>, schedule = #tile.schedule<{{.*}}>, tile.source = ["a = aten.neg.default"]}
// CHECK:           [[STOP:%.+]] = arith.constant 32 : index
// CHECK:           scf.for [[I:%.+]] = {{.*}} to [[STOP]] step
// CHECK-NEXT:        [[A:%.+]] = tile.load %x{{.}}[[I]]{{.}} strides [1] : !tile.ptr<f32> -> vector<16xf32>
// CHECK-NEXT:        [[B:%.+]] = arith.negf [[A]] : vector<16xf32>
// CHECK-NEXT:        tile.store [[B]], %a{{.}}[[I]]{{.}} strides [1] : vector<16xf32>
// CHECK-NOT:       tile.mask
func.func @even(%x: tensor<4x8xf32>) {
  %s = fusion.group ({
    %a = torch.aten.neg.default(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    fusion.yield %a : tensor<4x8xf32>
  }) -> tensor<4x8xf32>
  fx.output(%s) : (tensor<4x8xf32>) -> ()
}

// -----

/// What is left of a row has a mask. What is the same in every lane is loaded once a row.
// CHECK-LABEL: func.func @broadcast
// CHECK:         tile.kernel
// CHECK:           scf.for
// CHECK:             [[Y:%.+]] = tile.load %y{{.*}} : !tile.ptr<f32> -> f32
// CHECK:             tile.splat [[Y]] : f32 to vector<4xf32>
// CHECK:             [[M:%.+]] = tile.mask
// CHECK:             tile.load %x{{.*}} strides [1], [[M]], {{.*}} -> vector<4xf32>
// CHECK:             tile.store {{.*}} strides [1], [[M]]
func.func @broadcast(%x: tensor<4x5xf32>, %y: tensor<4x1xf32>) {
  %s = fusion.group ({
    %a = torch.aten.add.Tensor(%x, %y) : (tensor<4x5xf32>, tensor<4x1xf32>) -> tensor<4x5xf32>
    fusion.yield %a : tensor<4x5xf32>
  }) -> tensor<4x5xf32>
  fx.output(%s) : (tensor<4x5xf32>) -> ()
}

// -----

/// An operand that is read in steps.
// CHECK-LABEL: func.func @steps
// CHECK:         tile.kernel
// CHECK-DAG:       tile.load %x{{.*}} strides [2]
// CHECK-DAG:       tile.load %y{{.*}} strides [1]
// CHECK-NOT:       tile.transpose
// CHECK:           tile.store {{.*}} strides [1]
func.func @steps(%x: tensor<8xf32, #torch.meta<strides = [2]>>, %y: tensor<8xf32>) {
  %s = fusion.group ({
    %a = torch.aten.add.Tensor(%y, %x) : (tensor<8xf32>, tensor<8xf32, #torch.meta<strides = [2]>>) -> tensor<8xf32>
    fusion.yield %a : tensor<8xf32>
  }) -> tensor<8xf32>
  fx.output(%s) : (tensor<8xf32>) -> ()
}

// -----

/// Tiles: each operand is loaded along its own memory, and what lies across is transposed. Edges have masks of both loops.
// CHECK-LABEL: func.func @tiles
// CHECK:         tile.kernel
// CHECK:           [[X:%.+]] = tile.load %x{{.*}} strides [6, 1] : !tile.ptr<f32> -> vector<4x4xf32>
// CHECK:           [[T:%.+]] = tile.transpose [[X]] {permutation = [1, 0]}
// CHECK:           [[A:%.+]] = arith.addf {{.*}}, [[T]] : vector<4x4xf32>
// CHECK:           tile.store [[A]], %a{{.*}} strides [9, 1] : vector<4x4xf32>
// CHECK:           [[M:%.+]] = arith.andi {{.*}} : vector<4x4xi1>
// CHECK:           tile.load %y{{.*}} strides [9, 1], [[M]]
// CHECK:           [[N:%.+]] = arith.andi {{.*}} : vector<4x4xi1>
// CHECK:           tile.load %x{{.*}} strides [6, 1], [[N]]
// CHECK:           tile.store {{.*}} strides [9, 1], [[M]]
func.func @tiles(%x: tensor<9x6xf32>, %y: tensor<6x9xf32>) {
  %s = fusion.group ({
    %t = torch.aten.t.default(%x) : (tensor<9x6xf32>) -> tensor<6x9xf32, #torch.meta<strides = [1, 6]>>
    %a = torch.aten.add.Tensor(%y, %t) : (tensor<6x9xf32>, tensor<6x9xf32, #torch.meta<strides = [1, 6]>>) -> tensor<6x9xf32>
    fusion.yield %a : tensor<6x9xf32>
  }) -> tensor<6x9xf32>
  fx.output(%s) : (tensor<6x9xf32>) -> ()
}

// -----

/// No operand lies across: a tile in the schedule changes nothing.
// CHECK-LABEL: func.func @no_tiles
// CHECK:         tile.kernel
// CHECK:           tile.load %x{{.*}} strides [1] : !tile.ptr<f32> -> vector<4xf32>
func.func @no_tiles(%x: tensor<8x8xf32>) {
  %s = fusion.group ({
    %e = tensor.empty() : tensor<8x8xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
    ^bb0(%a: f32, %o: f32):
      %n = arith.negf %a : f32
      linalg.yield %n : f32
    } -> tensor<8x8xf32>
    fusion.yield %r : tensor<8x8xf32>
  }) {tile.schedule = [#tile.schedule<"elementwise", stages = [0], lanes = 4, unroll = 1, block = 64, tile = 4>]} -> tensor<8x8xf32>
  fx.output(%s) : (tensor<8x8xf32>) -> ()
}

// -----

/// Dimensions that a view cuts and joins again are one loop: no quotient is left.
// CHECK-LABEL: func.func @reshaped
// CHECK:         tile.kernel
// CHECK-NOT:       tile.gather
// CHECK-NOT:       arith.divui
// CHECK:           tile.return
func.func @reshaped(%x: tensor<4x6xf32>, %y: tensor<24xf32>) {
  %s = fusion.group ({
    %v = torch.aten.view.default(%x, [24]) : (tensor<4x6xf32>) -> tensor<24xf32>
    %a = torch.aten.add.Tensor(%y, %v) : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
    fusion.yield %a : tensor<24xf32>
  }) -> tensor<24xf32>
  fx.output(%s) : (tensor<24xf32>) -> ()
}

// -----

/// Where memory is not in even steps along the lanes, each lane has its place.
// CHECK-LABEL: func.func @gathered
// CHECK:         tile.kernel
// CHECK:           arith.divsi {{.*}} : vector<16xi64>
// CHECK:           tile.gather %x
func.func @gathered(%x: tensor<4x6xf32, #torch.meta<strides = [1, 4]>>, %y: tensor<24xf32>) {
  %s = fusion.group ({
    %v = torch.aten.reshape.default(%x, [24]) : (tensor<4x6xf32, #torch.meta<strides = [1, 4]>>) -> tensor<24xf32>
    %a = torch.aten.add.Tensor(%y, %v) : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
    fusion.yield %a : tensor<24xf32>
  }) -> tensor<24xf32>
  fx.output(%s) : (tensor<24xf32>) -> ()
}

// -----

/// A reduction along the lanes: several accumulators, one number at the end, which is not stored.
// CHECK-LABEL: func.func @rows
// CHECK:         tile.kernel
// CHECK:           [[A:%.+]], [[B:%.+]], [[C:%.+]], [[D:%.+]] = scf.for {{.*}} iter_args
// CHECK:           [[T:%.+]] = tile.reduce "add" {{.*}} {dims = [0]} : vector<4xf32> -> f32
// CHECK-NOT:       tile.store
// CHECK:           [[S:%.+]] = tile.splat [[T]]
// CHECK:           scf.for
// CHECK:             arith.divf {{.*}}, [[S]] : vector<4xf32>
// CHECK:             tile.store
func.func @rows(%x: tensor<8x128xf32>) {
  %s = fusion.group ({
    %m = torch.aten.sum.dim_IntList(%x, [1], true) : (tensor<8x128xf32>) -> tensor<8x1xf32>
    %d = torch.aten.div.Tensor(%x, %m) : (tensor<8x128xf32>, tensor<8x1xf32>) -> tensor<8x128xf32>
    fusion.yield %d : tensor<8x128xf32>
  }) -> tensor<8x128xf32>
  fx.output(%s) : (tensor<8x128xf32>) -> ()
}

// -----

/// Lanes that do not count are what changes nothing.
// CHECK-LABEL: func.func @tail
// CHECK:         tile.kernel
// CHECK:           [[LOW:%.+]] = arith.constant 0xff800000 : f32
// CHECK:           [[NONE:%.+]] = tile.splat [[LOW]]
// CHECK:           [[M:%.+]] = tile.mask
// CHECK:           [[V:%.+]] = tile.select [[M]], {{.*}}, [[NONE]]
// CHECK:           arith.maximumf {{.*}}, [[V]]
// CHECK:           tile.reduce "max"
func.func @tail(%x: tensor<8x70xf32>) {
  %s = fusion.group ({
    %m = torch.aten.amax.default(%x, [1]) : (tensor<8x70xf32>) -> tensor<8xf32>
    fusion.yield %m : tensor<8xf32>
  }) -> tensor<8xf32>
  fx.output(%s) : (tensor<8xf32>) -> ()
}

// -----

/// A reduction of another loop: each lane has its own accumulator.
// CHECK-LABEL: func.func @columns
// CHECK:         tile.kernel
// CHECK:           [[T:%.+]] = scf.for {{.*}} iter_args({{.*}}) -> (vector<4xf32>)
// CHECK:           tile.store [[T]], %s
// CHECK-NOT:       tile.reduce
func.func @columns(%x: tensor<9x4xf32>) {
  %s = fusion.group ({
    %s = torch.aten.sum.dim_IntList(%x, [0]) : (tensor<9x4xf32>) -> tensor<4xf32>
    fusion.yield %s : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output(%s) : (tensor<4xf32>) -> ()
}

// -----

/// Few rows are read one after the other, without a loop.
// CHECK-LABEL: func.func @few
// CHECK:         tile.kernel
// CHECK-NOT:       scf.for
// CHECK-COUNT-3:   arith.addf {{.*}} : vector<4xf32>
// CHECK:           tile.store {{.*}}, %s
func.func @few(%x: tensor<3x4xf32>) {
  %s = fusion.group ({
    %s = torch.aten.sum.dim_IntList(%x, [0]) : (tensor<3x4xf32>) -> tensor<4xf32>
    fusion.yield %s : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output(%s) : (tensor<4xf32>) -> ()
}

// -----

/// Many rows are added up in blocks, whose totals are added up: no total is rounded for each row.
// CHECK-LABEL: func.func @many
// CHECK:         tile.kernel
// CHECK:           [[BLOCKS:%.+]] = scf.for {{.*}} iter_args([[ALL:%.+]] = {{.*}}) -> (vector<4xf32>)
// CHECK:             [[BLOCK:%.+]] = scf.for {{.*}} iter_args({{.*}}) -> (vector<4xf32>)
// CHECK:             arith.addf [[ALL]], [[BLOCK]]
// CHECK:           [[REST:%.+]] = scf.for
// CHECK:           arith.addf [[BLOCKS]], [[REST]]
func.func @many(%x: tensor<1001x4xf32>) {
  %s = fusion.group ({
    %s = torch.aten.sum.dim_IntList(%x, [0]) : (tensor<1001x4xf32>) -> tensor<4xf32>
    fusion.yield %s : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output(%s) : (tensor<4xf32>) -> ()
}

// -----

/// The largest of many needs no blocks: nothing is rounded.
// CHECK-LABEL: func.func @largest
// CHECK:         tile.kernel
// CHECK-COUNT-1:   scf.for
// CHECK-NOT:       scf.for
func.func @largest(%x: tensor<1001x4xf32>) {
  %s = fusion.group ({
    %s = torch.aten.amax.default(%x, [0]) : (tensor<1001x4xf32>) -> tensor<4xf32>
    fusion.yield %s : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output(%s) : (tensor<4xf32>) -> ()
}

// -----

/// What was wider only to be rounded back is not rounded.
// CHECK-LABEL: func.func @narrow
// CHECK:         tile.kernel
// CHECK:           [[V:%.+]] = tile.load
// CHECK-NOT:       arith.truncf
// CHECK:           tile.store [[V]]
func.func @narrow(%x: tensor<4x8xbf16>) {
  %s = fusion.group ({
    %a = torch.aten.clone.default(%x) : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
    fusion.yield %a : tensor<4x8xbf16>
  }) -> tensor<4x8xbf16>
  fx.output(%s) : (tensor<4x8xbf16>) -> ()
}

// -----

/// Pieces of a concatenation are stored where they belong; those of different sizes by programs of their own.
// CHECK-LABEL: func.func @pieces
// CHECK-NEXT:    tile.launch @kernel_0(%x, %y) : (tensor<2x4xf32>, tensor<2x8xf32>) -> tensor<2x12xf32>
// CHECK:         tile.kernel {{.*}}grid = array<i64: 2>
// CHECK:           scf.if
// CHECK:             tile.store {{.*}} : vector<4xf32>
// CHECK:           scf.if
// CHECK:             tile.store {{.*}} : vector<4xf32>
func.func @pieces(%x: tensor<2x4xf32>, %y: tensor<2x8xf32>) {
  %s = fusion.group ({
    %n = torch.aten.neg.default(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %c = torch.aten.cat.default([%n, %y], 1) : (tensor<2x4xf32>, tensor<2x8xf32>) -> tensor<2x12xf32>
    fusion.yield %c : tensor<2x12xf32>
  }) -> tensor<2x12xf32>
  fx.output(%s) : (tensor<2x12xf32>) -> ()
}

// -----

/// A kernel has a name of its own.
// CHECK-LABEL: func.func @kernel_0
// CHECK-NEXT:    tile.launch @kernel_1
// CHECK:         tile.kernel @kernel_1
func.func @kernel_0(%x: tensor<4xf32>) {
  %s = fusion.group ({
    %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %a : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output(%s) : (tensor<4xf32>) -> ()
}

// -----

/// A group without a schedule.
// CHECK-LABEL: func.func @torch
// CHECK:         fusion.group
// CHECK-NOT:     tile.kernel
func.func @torch(%x: tensor<4xf32>) {
  %s = fusion.group ({
    %a = torch.aten.logcumsumexp.default(%x, 0) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %a : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output(%s) : (tensor<4xf32>) -> ()
}

// -----

/// A row is held: it is loaded once, and what two stages compute of it is computed once.
// CHECK-LABEL: func.func @held
// CHECK:         tile.kernel
// CHECK:           scf.for
// CHECK:             [[X:%.+]] = tile.load %x{{.*}} : !tile.ptr<f32> -> vector<8xf32>
// CHECK-NOT:         tile.load
// CHECK:             [[E:%.+]] = math.exp
// CHECK-NOT:         math.exp
// CHECK:             [[R:%.+]] = arith.divf [[E]], {{.*}} : vector<8xf32>
// CHECK-NEXT:        tile.store [[R]]
func.func @held(%x: tensor<4x8xf32>) {
  %o = fusion.group ({
    %low = arith.constant 0xff800000 : f32
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4xf32>
    %f = linalg.fill ins(%low : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %m = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %n = arith.maximumf %b, %a : f32
      linalg.yield %n : f32
    } -> tensor<4xf32>
    %g = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x, %m : tensor<4x8xf32>, tensor<4xf32>) outs(%g : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %d = arith.subf %a, %b : f32
      %n = math.exp %d : f32
      %t = arith.addf %c, %n : f32
      linalg.yield %t : f32
    } -> tensor<4xf32>
    %h = tensor.empty() : tensor<4x8xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %m, %s : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) outs(%h : tensor<4x8xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
      %y = arith.subf %a, %b : f32
      %n = math.exp %y : f32
      %t = arith.divf %n, %c : f32
      linalg.yield %t : f32
    } -> tensor<4x8xf32>
    fusion.yield %r : tensor<4x8xf32>
  }) {tile.schedule = [#tile.schedule<"inner", stages = [0, 1, 2], lanes = 8, unroll = 1, block = 4, form = "held">]} -> tensor<4x8xf32>
  fx.output(%o) : (tensor<4x8xf32>) -> ()
}

// -----

/// A row is stored: the exponential lies where the result comes to lie.
// CHECK-LABEL: func.func @stored
// CHECK:         tile.kernel
// CHECK:             [[E:%.+]] = math.exp {{.*}} : vector<4xf32>
// CHECK-NEXT:        tile.store [[E]], %{{.*}} strides [1]
// CHECK-NOT:         math.exp
// CHECK:             [[F:%.+]] = tile.load %{{.*}} : !tile.ptr<f32> -> vector<4xf32>
// CHECK:             arith.divf [[F]]
func.func @stored(%x: tensor<4x8xf32>) {
  %o = fusion.group ({
    %low = arith.constant 0xff800000 : f32
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4xf32>
    %f = linalg.fill ins(%low : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %m = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %n = arith.maximumf %b, %a : f32
      linalg.yield %n : f32
    } -> tensor<4xf32>
    %g = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x, %m : tensor<4x8xf32>, tensor<4xf32>) outs(%g : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %d = arith.subf %a, %b : f32
      %n = math.exp %d : f32
      %t = arith.addf %c, %n : f32
      linalg.yield %t : f32
    } -> tensor<4xf32>
    %h = tensor.empty() : tensor<4x8xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %m, %s : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) outs(%h : tensor<4x8xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
      %y = arith.subf %a, %b : f32
      %n = math.exp %y : f32
      %t = arith.divf %n, %c : f32
      linalg.yield %t : f32
    } -> tensor<4x8xf32>
    fusion.yield %r : tensor<4x8xf32>
  }) {tile.schedule = [#tile.schedule<"inner", stages = [0, 1, 2], lanes = 4, unroll = 1, block = 4, form = "stored">]} -> tensor<4x8xf32>
  fx.output(%o) : (tensor<4x8xf32>) -> ()
}

// -----

/// A row is online: with each piece the maximum rises, and the sum so far is scaled.
// CHECK-LABEL: func.func @online
// CHECK:         tile.kernel
// CHECK:             {{%.+}}, {{%.+}} = scf.for {{.*}} iter_args([[M:%.+]] = {{.*}}, [[S:%.+]] = {{.*}}) -> (f32, f32)
// CHECK:               tile.load %x
// CHECK-NOT:           tile.load
// CHECK:               [[N:%.+]] = arith.maximumf [[M]], {{.*}} : f32
// CHECK:               [[F:%.+]] = math.exp {{.*}} : f32
// CHECK-NEXT:          arith.mulf [[S]], [[F]] : f32
// CHECK:               scf.yield
func.func @online(%x: tensor<4x8xf32>) {
  %o = fusion.group ({
    %low = arith.constant 0xff800000 : f32
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4xf32>
    %f = linalg.fill ins(%low : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %m = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %n = arith.maximumf %b, %a : f32
      linalg.yield %n : f32
    } -> tensor<4xf32>
    %g = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x, %m : tensor<4x8xf32>, tensor<4xf32>) outs(%g : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %d = arith.subf %a, %b : f32
      %n = math.exp %d : f32
      %t = arith.addf %c, %n : f32
      linalg.yield %t : f32
    } -> tensor<4xf32>
    %h = tensor.empty() : tensor<4x8xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %m, %s : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) outs(%h : tensor<4x8xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
      %y = arith.subf %a, %b : f32
      %n = math.exp %y : f32
      %t = arith.divf %n, %c : f32
      linalg.yield %t : f32
    } -> tensor<4x8xf32>
    fusion.yield %r : tensor<4x8xf32>
  }) {tile.schedule = [#tile.schedule<"inner", stages = [0, 1, 2], lanes = 4, unroll = 1, block = 4, piece = 4, form = "online">]} -> tensor<4x8xf32>
  fx.output(%o) : (tensor<4x8xf32>) -> ()
}

// -----

/// Each lane has totals of its elements: no step reduces the lanes.
// CHECK-LABEL: func.func @online_in_lanes
// CHECK:         tile.kernel
// CHECK:           scf.for
// CHECK-NOT:         tile.reduce
// CHECK:           scf.yield
// CHECK:           tile.reduce "max"
// CHECK:           tile.reduce "add"
func.func @online_in_lanes(%x: tensor<4x8xf32>) {
  %o = fusion.group ({
    %low = arith.constant 0xff800000 : f32
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4xf32>
    %f = linalg.fill ins(%low : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %m = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %n = arith.maximumf %b, %a : f32
      linalg.yield %n : f32
    } -> tensor<4xf32>
    %g = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x, %m : tensor<4x8xf32>, tensor<4xf32>) outs(%g : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %d = arith.subf %a, %b : f32
      %n = math.exp %d : f32
      %t = arith.addf %c, %n : f32
      linalg.yield %t : f32
    } -> tensor<4xf32>
    %h = tensor.empty() : tensor<4x8xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %m, %s : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) outs(%h : tensor<4x8xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
      %y = arith.subf %a, %b : f32
      %n = math.exp %y : f32
      %t = arith.divf %n, %c : f32
      linalg.yield %t : f32
    } -> tensor<4x8xf32>
    fusion.yield %r : tensor<4x8xf32>
  }) {tile.schedule = [#tile.schedule<"inner", stages = [0, 1, 2], lanes = 4, unroll = 1, block = 4, piece = 1, form = "online">]} -> tensor<4x8xf32>
  fx.output(%o) : (tensor<4x8xf32>) -> ()
}

// -----

/// What is reduced, in parts: each program gives the total of one, and the last program combines them.
// CHECK-LABEL: func.func @parts
// CHECK-NEXT:    tile.launch @kernel_0(%x) : (tensor<100xf32>) -> (tensor<f32>, tensor<3xf32>)
// CHECK-NOT:     tile.launch
// CHECK:         tile.kernel @kernel_0{{.*}}tile.elements = 3 : i64{{.*}} attributes {grid = array<i64: 3>
// CHECK:           [[I:%.+]] = arith.muli %program
// CHECK:           [[L:%.+]] = arith.subi {{.*}}, [[I]]
// CHECK:           arith.minui [[L]]
// CHECK:           tile.last_program ([[S:%.+]] = %s, [[P:%.+]] = %s_1)
// CHECK:             tile.load [[P]]
// CHECK:             tile.store {{.*}}, [[S]]
func.func @parts(%x: tensor<100xf32>) {
  %o = fusion.group ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<f32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
    %s = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%x : tensor<100xf32>) outs(%f : tensor<f32>) {
    ^bb0(%a: f32, %b: f32):
      %n = arith.addf %b, %a : f32
      linalg.yield %n : f32
    } -> tensor<f32>
    fusion.yield %s : tensor<f32>
  }) {tile.schedule = [#tile.schedule<"inner", stages = [0], lanes = 4, unroll = 1, block = 1, parts = 3>]} -> tensor<f32>
  fx.output(%o) : (tensor<f32>) -> ()
}

// -----

/// Tensors of a GPU begin at multiples of 16 bytes, those of a CPU anywhere.
// CHECK-LABEL: func.func @aligned
// CHECK:         tile.kernel @kernel_0(%x: !tile.ptr<f32> {tile.access = "read", tile.elements = 4 : i64, tile.divisible = 16 : i64}, %a: !tile.ptr<f32> {tile.access = "write", tile.elements = 4 : i64, tile.divisible = 16 : i64})
builtin.module attributes {fxc.target = #target.gpu} {
  func.func @aligned(%x: tensor<4xf32>) {
    %s = fusion.group ({
      %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      fusion.yield %a : tensor<4xf32>
    }) -> tensor<4xf32>
    fx.output(%s) : (tensor<4xf32>) -> ()
  }
}

// -----

/// A schedule for the last program of the kernel before: it reads what all programs have stored. What nothing else reads is a
/// result of the launch, too, that nothing uses.
// CHECK-LABEL: func.func @last
// CHECK-NEXT:    %a, %o = tile.launch @kernel_0(%x) : (tensor<100xf32>) -> (tensor<100xf32>, tensor<f32>)
// CHECK-NEXT:    fx.output(%o)
// CHECK:         tile.kernel @kernel_0{{.*}} attributes {grid = array<i64: 4>, schedule = #tile.schedule<"elementwise", stages = [0]{{.*}}>, last = [#tile.schedule<"inner", stages = [1]{{.*}}program = "last">]
// CHECK:           tile.store {{.*}}, %a
// CHECK:           tile.last_program ([[A:%.+]] = %a, [[S:%.+]] = %s)
// CHECK:             tile.load [[A]]
// CHECK:             tile.store {{.*}}, [[S]]
func.func @last(%x: tensor<100xf32>) {
  %o = fusion.group ({
    %g = tensor.empty() : tensor<100xf32>
    %a = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<100xf32>) outs(%g : tensor<100xf32>) {
    ^bb0(%c: f32, %d: f32):
      %n = arith.negf %c : f32
      linalg.yield %n : f32
    } -> tensor<100xf32>
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<f32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
    %s = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%a : tensor<100xf32>) outs(%f : tensor<f32>) {
    ^bb0(%c: f32, %d: f32):
      %n = arith.addf %d, %c : f32
      linalg.yield %n : f32
    } -> tensor<f32>
    fusion.yield %s : tensor<f32>
  }) {tile.schedule = [#tile.schedule<"elementwise", stages = [0], lanes = 4, unroll = 1, block = 32>, #tile.schedule<"inner", stages = [1], lanes = 4, unroll = 1, block = 1, program = "last">]} -> tensor<f32>
  fx.output(%o) : (tensor<f32>) -> ()
}
