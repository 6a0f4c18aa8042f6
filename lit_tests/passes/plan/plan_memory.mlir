// RUN: fxc-opt %s --split-input-file --pass-pipeline=plan-memory | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=plan-memory,plan-memory | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline='plan-memory{in-place=false}' | filecheck %s --check-prefix=APART
// RUN: fxc-opt %s --split-input-file --pass-pipeline='plan-memory{largest=512}' | filecheck %s --check-prefix=SMALL

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>, schedule = #tile.schedule<"elementwise", stages = [0], lanes = 16, unroll = 1, block = 16>} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<16xf32>
  tile.store %a, %y[%zero] strides [1] : vector<16xf32>, !tile.ptr<f32>
  tile.return
}

/// A chain of kernels works in one buffer; without that, two places are used by turns. An argument is not written over.
// CHECK:         tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read", tile.in_place}, %y: !tile.ptr<f32> {tile.access = "write", tile.in_place})
// CHECK-LABEL: func.func @chain
// CHECK-SAME:    plan.memory = {arena = 64 : i64, peak = 64 : i64, lower_bound = 64 : i64, sum = 192 : i64}
// CHECK-NEXT:    %arena = plan.arena : !plan.arena<64, "cpu">
// CHECK-NEXT:    %a = plan.alloc %arena[0]
// CHECK-NEXT:    plan.launch @k(%x) outs(%a)
// CHECK-NEXT:    plan.launch @k(%a) outs(%a)
// CHECK-NEXT:    plan.launch @k(%a) outs(%a)
// CHECK-NEXT:    %s = torch.aten.sum.default(%a)
// CHECK-NEXT:    plan.free %a
// APART:         tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"})
// APART-LABEL: func.func @chain
// APART-SAME:    plan.memory = {arena = 128 : i64, peak = 128 : i64, lower_bound = 128 : i64, sum = 192 : i64}
// APART:         %a = plan.alloc %arena[0]
// APART:         %b = plan.alloc %arena[64]
// APART:         %c = plan.alloc %arena[0]
func.func @chain(%x: tensor<16xf32>) -> tensor<f32> {
  %a = plan.alloc : tensor<16xf32>
  plan.launch @k(%x) outs(%a) : (tensor<16xf32>) outs(tensor<16xf32>)
  %b = plan.alloc : tensor<16xf32>
  plan.launch @k(%a) outs(%b) : (tensor<16xf32>) outs(tensor<16xf32>)
  plan.free %a : tensor<16xf32>
  %c = plan.alloc : tensor<16xf32>
  plan.launch @k(%b) outs(%c) : (tensor<16xf32>) outs(tensor<16xf32>)
  plan.free %b : tensor<16xf32>
  %s = torch.aten.sum.default(%c) : (tensor<16xf32>) -> tensor<f32>
  plan.free %c : tensor<16xf32>
  fx.output(%s) : (tensor<f32>) -> ()
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>, schedule = #tile.schedule<"elementwise", stages = [0], lanes = 16, unroll = 1, block = 16>} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<16xf32>
  tile.store %a, %y[%zero] strides [1] : vector<16xf32>, !tile.ptr<f32>
  tile.return
}

/// Not in place: what is read later; in a view, too; an input of another type; what was written before.
// CHECK-LABEL: func.func @apart
// CHECK:         plan.launch @k(%x) outs(%a)
// CHECK:         plan.launch @k(%a) outs(%b)
// CHECK:         plan.launch @k(%v) outs(%c)
// CHECK:         plan.launch @k(%b) outs(%d)
// CHECK:         plan.launch @k(%d) outs(%e)
// CHECK:         plan.launch @k(%d) outs(%e)
func.func @apart(%x: tensor<16xf32>) -> tensor<4x4xf32> {
  %a = plan.alloc : tensor<16xf32>
  plan.launch @k(%x) outs(%a) : (tensor<16xf32>) outs(tensor<16xf32>)
  %v = torch.aten.view.default(%a, [4, 4]) : (tensor<16xf32>) -> tensor<4x4xf32>
  %b = plan.alloc : tensor<16xf32>
  plan.launch @k(%a) outs(%b) : (tensor<16xf32>) outs(tensor<16xf32>)
  plan.free %a : tensor<16xf32>
  %c = plan.alloc : tensor<4x4xf32>
  plan.launch @k(%v) outs(%c) : (tensor<4x4xf32>) outs(tensor<4x4xf32>)
  plan.free %v : tensor<4x4xf32>
  %d = plan.alloc : tensor<4x4xf32>
  plan.launch @k(%b) outs(%d) : (tensor<16xf32>) outs(tensor<4x4xf32>)
  plan.free %b : tensor<16xf32>
  %e = plan.alloc : tensor<4x4xf32>
  plan.launch @k(%d) outs(%e) : (tensor<4x4xf32>) outs(tensor<4x4xf32>)
  plan.launch @k(%d) outs(%e) : (tensor<4x4xf32>) outs(tensor<4x4xf32>)
  plan.free %d : tensor<4x4xf32>
  %r = torch.aten.add.Tensor(%c, %e) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  plan.free %c, %e : tensor<4x4xf32>, tensor<4x4xf32>
  fx.output(%r) : (tensor<4x4xf32>) -> ()
}

// -----

/// A program that goes through a row of its own twice: what it stores it has read for the last time.
// CHECK-LABEL: tile.kernel @rows(%x: !tile.ptr<f32> {tile.access = "read", tile.in_place}, %y: !tile.ptr<f32> {tile.access = "write", tile.in_place})
// CHECK-LABEL: func.func @in_rows
// CHECK-NEXT:    plan.arena : !plan.arena<256
// CHECK-NEXT:    %a = plan.alloc
// CHECK-NEXT:    %{{.*}} = torch.aten.exp.out
// CHECK-NEXT:    plan.launch @rows(%a) outs(%a)
tile.kernel @rows(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 2>, schedule = #tile.schedule<"inner", stages = [0], lanes = 16, unroll = 1, block = 1>} {
  %zero = arith.constant 0 : index
  %lanes = arith.constant 16 : index
  %length = arith.constant 32 : index
  %start = arith.constant dense<0.0> : vector<16xf32>
  %program = tile.program_id {axis = 0} : index
  %row = arith.muli %program, %length : index
  %sum = scf.for %i = %zero to %length step %lanes iter_args(%s = %start) -> (vector<16xf32>) {
    %place = arith.addi %row, %i : index
    %a = tile.load %x[%place] strides [1] : !tile.ptr<f32> -> vector<16xf32>
    %t = arith.addf %s, %a : vector<16xf32>
    scf.yield %t : vector<16xf32>
  }
  scf.for %i = %zero to %length step %lanes {
    %place = arith.addi %row, %i : index
    %a = tile.load %x[%place] strides [1] : !tile.ptr<f32> -> vector<16xf32>
    %d = arith.divf %a, %sum : vector<16xf32>
    tile.store %d, %y[%place] strides [1] : vector<16xf32>, !tile.ptr<f32>
  }
  tile.return
}
func.func @in_rows(%x: tensor<2x32xf32>) -> tensor<f32> {
  %a = plan.alloc : tensor<2x32xf32>
  %0 = torch.aten.exp.out(%x, out = %a) : (tensor<2x32xf32>, tensor<2x32xf32>) -> tensor<2x32xf32>
  %b = plan.alloc : tensor<2x32xf32>
  plan.launch @rows(%a) outs(%b) : (tensor<2x32xf32>) outs(tensor<2x32xf32>)
  plan.free %a : tensor<2x32xf32>
  %r = torch.aten.sum.default(%b) : (tensor<2x32xf32>) -> tensor<f32>
  plan.free %b : tensor<2x32xf32>
  fx.output(%r) : (tensor<f32>) -> ()
}

// -----

tile.kernel @reversed(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>, schedule = #tile.schedule<"elementwise", stages = [0], lanes = 8, unroll = 1, block = 8>} {
  %zero = arith.constant 0 : index
  %eight = arith.constant 8 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<8xf32>
  tile.store %a, %y[%eight] strides [1] : vector<8xf32>, !tile.ptr<f32>
  %b = tile.load %x[%eight] strides [1] : !tile.ptr<f32> -> vector<8xf32>
  tile.store %b, %y[%zero] strides [1] : vector<8xf32>, !tile.ptr<f32>
  tile.return
}
tile.kernel @late(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>, schedule = #tile.schedule<"elementwise", stages = [0], lanes = 16, unroll = 1, block = 16>} {
  %zero = arith.constant 0 : index
  %none = arith.constant dense<0.0> : vector<16xf32>
  tile.store %none, %y[%zero] strides [1] : vector<16xf32>, !tile.ptr<f32>
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<16xf32>
  tile.return
}
tile.kernel @other(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>, schedule = #tile.schedule<"inner", stages = [0], lanes = 16, unroll = 1, block = 16>} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<16xf32>
  tile.store %a, %y[%zero] strides [1] : vector<16xf32>, !tile.ptr<f32>
  tile.return
}
tile.kernel @gathers(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>, schedule = #tile.schedule<"elementwise", stages = [0], lanes = 16, unroll = 1, block = 16>} {
  %zero = arith.constant 0 : index
  %i = arith.constant dense<1> : vector<16xi64>
  %a = tile.gather %x[%i] : !tile.ptr<f32> -> vector<16xf32>
  tile.store %a, %y[%zero] strides [1] : vector<16xf32>, !tile.ptr<f32>
  tile.return
}
tile.kernel @adds(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "readwrite", tile.init = 0.0 : f32}) attributes {grid = array<i64: 1>, schedule = #tile.schedule<"elementwise", stages = [0], lanes = 16, unroll = 1, block = 16>} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<16xf32>
  tile.store %a, %y[%zero] strides [1] : vector<16xf32>, !tile.ptr<f32>
  tile.return
}
tile.kernel @blocks(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>, schedule = #tile.schedule<"elementwise", stages = [0], lanes = 16, unroll = 1, block = 16>} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<16xf32>
  scf.for %i = %zero to %one step %one {
    tile.store %a, %y[%zero] strides [1] : vector<16xf32>, !tile.ptr<f32>
  }
  tile.return
}

/// Not in place: kernels that store elsewhere than they loaded; or before they load; reductions; loads by index; kernels that
/// add to what is there; a load and a store that do not run as often as each other.
// CHECK-LABEL: func.func @kernels
// CHECK:         plan.launch @reversed(%a) outs(%b)
// CHECK:         plan.launch @late(%b) outs(%c)
// CHECK:         plan.launch @other(%c) outs(%d)
// CHECK:         plan.launch @gathers(%d) outs(%e)
// CHECK:         plan.launch @adds(%e) outs(%f)
// CHECK:         plan.launch @blocks(%f) outs(%g)
func.func @kernels(%x: tensor<16xf32>) -> tensor<f32> {
  %a = plan.alloc : tensor<16xf32>
  plan.launch @reversed(%x) outs(%a) : (tensor<16xf32>) outs(tensor<16xf32>)
  %b = plan.alloc : tensor<16xf32>
  plan.launch @reversed(%a) outs(%b) : (tensor<16xf32>) outs(tensor<16xf32>)
  plan.free %a : tensor<16xf32>
  %c = plan.alloc : tensor<16xf32>
  plan.launch @late(%b) outs(%c) : (tensor<16xf32>) outs(tensor<16xf32>)
  plan.free %b : tensor<16xf32>
  %d = plan.alloc : tensor<16xf32>
  plan.launch @other(%c) outs(%d) : (tensor<16xf32>) outs(tensor<16xf32>)
  plan.free %c : tensor<16xf32>
  %e = plan.alloc : tensor<16xf32>
  plan.launch @gathers(%d) outs(%e) : (tensor<16xf32>) outs(tensor<16xf32>)
  plan.free %d : tensor<16xf32>
  %f = plan.alloc : tensor<16xf32>
  plan.launch @adds(%e) outs(%f) : (tensor<16xf32>) outs(tensor<16xf32>)
  plan.free %e : tensor<16xf32>
  %g = plan.alloc : tensor<16xf32>
  plan.launch @blocks(%f) outs(%g) : (tensor<16xf32>) outs(tensor<16xf32>)
  plan.free %f : tensor<16xf32>
  %s = torch.aten.sum.default(%g) : (tensor<16xf32>) -> tensor<f32>
  plan.free %g : tensor<16xf32>
  fx.output(%s) : (tensor<f32>) -> ()
}

// -----

torch.operator @mylib.keep.default "(Tensor x) -> Tensor" flags ""

/// Not in an arena: what is returned, in a view too; what somebody's own operator, or a higher-order one, may keep; what is
/// never released; what has no bytes.
// CHECK-LABEL: func.func @outside
// CHECK-SAME:    plan.memory = {arena = 64 : i64, peak = 256 : i64, lower_bound = 256 : i64, sum = 256 : i64}
// CHECK-NEXT:    plan.arena : !plan.arena<64, "cpu">
// CHECK-NEXT:    %a = plan.alloc :
// CHECK-NEXT:    %b = plan.alloc :
// CHECK-NEXT:    %c = plan.alloc :
// CHECK-NEXT:    %d = plan.alloc : tensor<0xf32>
// CHECK-NEXT:    %e = plan.alloc %arena[0] : tensor<16xf32>
func.func @outside(%x: tensor<16xf32>) -> (tensor<4x4xf32>, tensor<f32>) {
  %a = plan.alloc : tensor<16xf32>
  %b = plan.alloc : tensor<16xf32>
  %c = plan.alloc : tensor<16xf32>
  %d = plan.alloc : tensor<0xf32>
  %e = plan.alloc : tensor<16xf32>
  %0 = torch.aten.add.out(%x, %x, out = %a) : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %1 = torch.aten.add.out(%x, %x, out = %b) : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %2 = torch.aten.add.out(%x, %x, out = %c) : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %3 = torch.aten.add.out(%x, %x, out = %e) : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %v = torch.aten.view.default(%a, [4, 4]) : (tensor<16xf32>) -> tensor<4x4xf32>
  plan.free %a : tensor<16xf32>
  %k = torch.mylib.keep.default(%b) : (tensor<16xf32>) -> tensor<16xf32>
  plan.free %b : tensor<16xf32>
  %s = torch.aten.dot.default(%c, %e) : (tensor<16xf32>, tensor<16xf32>) -> tensor<f32>
  plan.free %e, %d : tensor<16xf32>, tensor<0xf32>
  fx.output((%v, %s)) : (tensor<4x4xf32>, tensor<f32>) -> ()
}

// -----

/// A buffer is in use until the last view of it is released.
// CHECK-LABEL: func.func @view
// CHECK:         %a = plan.alloc %arena[0]
// CHECK:         %b = plan.alloc %arena[64]
// CHECK:         %c = plan.alloc %arena[0]
func.func @view(%x: tensor<16xf32>) -> tensor<f32> {
  %a = plan.alloc : tensor<16xf32>
  %0 = torch.aten.add.out(%x, %x, out = %a) : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %v = torch.aten.view.default(%a, [4, 4]) : (tensor<16xf32>) -> tensor<4x4xf32>
  plan.free %a : tensor<16xf32>
  %b = plan.alloc : tensor<4x4xf32>
  %1 = torch.aten.add.out(%v, %v, out = %b) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  plan.free %v : tensor<4x4xf32>
  %c = plan.alloc : tensor<4x4xf32>
  %2 = torch.aten.add.out(%b, %b, out = %c) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  plan.free %b : tensor<4x4xf32>
  %s = torch.aten.sum.default(%c) : (tensor<4x4xf32>) -> tensor<f32>
  plan.free %c : tensor<4x4xf32>
  fx.output(%s) : (tensor<f32>) -> ()
}

// -----

/// An arena for each device.
// CHECK-LABEL: func.func @devices
// CHECK-NEXT:    %arena = plan.arena : !plan.arena<64, "cuda:0">
// CHECK-NEXT:    %arena_1 = plan.arena : !plan.arena<64, "cpu">
// CHECK-NEXT:    %a = plan.alloc %arena_1[0] : tensor<16xf32>
// CHECK-NEXT:    %b = plan.alloc %arena[0] : tensor<16xf32, #torch.meta<device = "cuda:0">>
func.func @devices() {
  %a = plan.alloc : tensor<16xf32>
  %b = plan.alloc : tensor<16xf32, #torch.meta<device = "cuda:0">>
  plan.free %a, %b : tensor<16xf32>, tensor<16xf32, #torch.meta<device = "cuda:0">>
  fx.output(()) : () -> ()
}

// -----

/// What one stream uses lies in an arena of that stream, and what several use in another; there, bytes are used again where
/// all streams come after the last use: %d lies where %b was, which stream 1 has read by then, and %c does not.
// CHECK-LABEL: func.func @streams
// CHECK-SAME:    plan.memory = {arena = 256 : i64,
// CHECK-NEXT:    %arena = plan.arena {plan.stream = 1 : i64} : !plan.arena<64, "cuda:0">
// CHECK-NEXT:    %arena_1 = plan.arena : !plan.arena<128, "cuda:0">
// CHECK-NEXT:    %arena_2 = plan.arena : !plan.arena<64, "cuda:0">
// CHECK-NEXT:    %a = plan.alloc %arena_2[0] :
// CHECK:         %b = plan.alloc %arena_1[0] :
// CHECK:         %p = plan.alloc %arena[0] :
// CHECK:         %q = plan.alloc %arena[0] :
// CHECK:         %c = plan.alloc %arena_1[64] :
// CHECK:         %d = plan.alloc %arena_1[0] :
!t = tensor<16xf32, #torch.meta<device = "cuda:0">>
func.func @streams(%x: !t) {
  %a = plan.alloc : !t
  %0 = torch.aten.sin.out(%x, out = %a) : (!t, !t) -> !t
  %b = plan.alloc : !t
  %1 = torch.aten.sin.out(%a, out = %b) : (!t, !t) -> !t
  plan.free %a : !t
  %e = plan.record {stream = 0} : !plan.event
  plan.wait %e {stream = 1}
  %p = plan.alloc {plan.stream = 1} : !t
  %2 = torch.aten.sin.out(%b, out = %p) {plan.stream = 1} : (!t, !t) -> !t
  plan.free %b, %p : !t, !t
  %q = plan.alloc {plan.stream = 1} : !t
  %3 = torch.aten.sin.out(%x, out = %q) {plan.stream = 1} : (!t, !t) -> !t
  plan.free %q : !t
  %c = plan.alloc : !t
  %4 = torch.aten.sin.out(%x, out = %c) : (!t, !t) -> !t
  %f = plan.record {stream = 1} : !plan.event
  plan.wait %f {stream = 0}
  %g = plan.record {stream = 0} : !plan.event
  plan.wait %g {stream = 1}
  %5 = torch.aten.sin.out(%c, out = %c) {plan.stream = 1} : (!t, !t) -> !t
  %d = plan.alloc {plan.stream = 1} : !t
  %6 = torch.aten.sin.out(%x, out = %d) {plan.stream = 1} : (!t, !t) -> !t
  %h = plan.record {stream = 1} : !plan.event
  plan.wait %h {stream = 0}
  %7 = torch.aten.sin.out(%d, out = %d) : (!t, !t) -> !t
  plan.free %c, %d : !t, !t
  fx.output(()) : () -> ()
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>, schedule = #tile.schedule<"elementwise", stages = [0], lanes = 16, unroll = 1, block = 16>} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<16xf32>
  tile.store %a, %y[%zero] strides [1] : vector<16xf32>, !tile.ptr<f32>
  tile.return
}

/// Not over what another stream may still read; over it, where that is surely done.
// CHECK-LABEL: func.func @read_elsewhere
// CHECK:         plan.launch @k(%a) outs(%b)
// CHECK:         plan.launch @k(%b) outs(%b)
!t = tensor<16xf32, #torch.meta<device = "cuda:0">>
func.func @read_elsewhere(%x: !t) {
  %a = plan.alloc : !t
  plan.launch @k(%x) outs(%a) : (!t) outs(!t)
  %e = plan.record {stream = 0} : !plan.event
  plan.wait %e {stream = 1}
  %0 = torch.aten.sin.default(%a) {plan.stream = 1} : (!t) -> !t
  %b = plan.alloc : !t
  plan.launch @k(%a) outs(%b) : (!t) outs(!t)
  plan.free %a : !t
  %g = plan.record {stream = 0} : !plan.event
  plan.wait %g {stream = 1}
  %1 = torch.aten.sin.default(%b) {plan.stream = 1} : (!t) -> !t
  %f = plan.record {stream = 1} : !plan.event
  plan.wait %f {stream = 0}
  %c = plan.alloc : !t
  plan.launch @k(%b) outs(%c) : (!t) outs(!t)
  plan.free %b : !t
  %2 = torch.aten.sin.default(%c) : (!t) -> !t
  plan.free %c : !t
  fx.output(()) : () -> ()
}

// -----

/// An operator updates its first operand where that is memory of its own, a buffer or what another operator made, and released
/// right behind.
// CHECK-LABEL: func.func @updated
// CHECK:         %b = plan.alloc
// CHECK-NEXT:    torch.aten.mm.out
// CHECK-NEXT:    torch.aten.add_.Tensor(%b, %x)
// CHECK-NEXT:    %c = torch.aten.mm.default(%b, %x)
// CHECK-NEXT:    torch.aten.relu_.default(%c)
// CHECK-NEXT:    fx.output((%b, %c))
// APART-LABEL: func.func @updated
// APART:         torch.aten.add.Tensor
// APART:         torch.aten.relu.default
func.func @updated(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %b = plan.alloc : tensor<4x4xf32>
  %0 = torch.aten.mm.out(%x, %x, out = %b) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = torch.aten.add.Tensor(%b, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  plan.free %b : tensor<4x4xf32>
  %c = torch.aten.mm.default(%s, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = torch.aten.relu.default(%c) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  plan.free %c : tensor<4x4xf32>
  fx.output((%s, %r)) : (tensor<4x4xf32>, tensor<4x4xf32>) -> ()
}

// -----

/// Not an argument, what is read later or twice, of what there is a view, a result of another type, nor a view.
// CHECK-LABEL: func.func @not_updated
// CHECK:         torch.aten.relu.default(%x)
// CHECK-NEXT:    %a = torch.aten.exp.default(%x)
// CHECK-NEXT:    torch.aten.relu.default(%a)
// CHECK-NEXT:    torch.aten.mul.Tensor(%a, %a)
// CHECK:         torch.aten.relu.default(%b)
// CHECK:         torch.aten.gt.Scalar(%c, 0)
// CHECK:         torch.aten.t.default(%d)
func.func @not_updated(%x: tensor<4x4xf32>) {
  %p = torch.aten.relu.default(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = torch.aten.exp.default(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %q = torch.aten.relu.default(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = torch.aten.mul.Tensor(%a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  plan.free %a : tensor<4x4xf32>
  %b = torch.aten.sin.default(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = torch.aten.view.default(%b, [16]) : (tensor<4x4xf32>) -> tensor<16xf32>
  %s = torch.aten.relu.default(%b) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  plan.free %b : tensor<4x4xf32>
  %c = torch.aten.cos.default(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = torch.aten.gt.Scalar(%c, 0) : (tensor<4x4xf32>) -> tensor<4x4xi1>
  plan.free %c : tensor<4x4xf32>
  %d = torch.aten.tan.default(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %u = torch.aten.t.default(%d) : (tensor<4x4xf32>) -> tensor<4x4xf32, #torch.meta<strides = [1, 4]>>
  plan.free %d : tensor<4x4xf32>
  %n = plan.alloc : tensor<4xf32>
  plan.free %n : tensor<4xf32>
  fx.output((%p, %q, %r, %v, %s, %t, %u)) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<16xf32>, tensor<4x4xf32>, tensor<4x4xi1>, tensor<4x4xf32, #torch.meta<strides = [1, 4]>>) -> ()
}

// -----

/// Buffers that are larger than asked for stay apart.
// CHECK-LABEL: func.func @large
// CHECK:         %a = plan.alloc %arena
// CHECK:         %b = plan.alloc %arena
// SMALL-LABEL: func.func @large
// SMALL-SAME:    plan.memory = {arena = 64 : i64, peak = 1088 : i64, lower_bound = 1088 : i64, sum = 1088 : i64}
// SMALL:         %a = plan.alloc %arena
// SMALL:         %b = plan.alloc : tensor<16x16xf32>
func.func @large(%x: tensor<4x4xf32>, %y: tensor<16x16xf32>) -> (tensor<f32>, tensor<f32>) {
  %a = plan.alloc : tensor<4x4xf32>
  %0 = torch.aten.mm.out(%x, %x, out = %a) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = plan.alloc : tensor<16x16xf32>
  %1 = torch.aten.mm.out(%y, %y, out = %b) : (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %s = torch.aten.sum.default(%a) : (tensor<4x4xf32>) -> tensor<f32>
  %t = torch.aten.sum.default(%b) : (tensor<16x16xf32>) -> tensor<f32>
  plan.free %a, %b : tensor<4x4xf32>, tensor<16x16xf32>
  fx.output((%s, %t)) : (tensor<f32>, tensor<f32>) -> ()
}

// -----

/// What a call counts the storage of from its start has one of its own; without an offset, as_strided starts where its operand does.
// CHECK-LABEL: func.func @storages
// CHECK:         %a = plan.alloc : tensor<4x4xf32>
// CHECK:         %b = plan.alloc %arena[0] : tensor<4x4xf32>
func.func @storages(%x: tensor<4x4xf32>) -> (tensor<f32>, tensor<f32>) {
  %a = plan.alloc : tensor<4x4xf32>
  %0 = torch.aten.mm.out(%x, %x, out = %a) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = plan.alloc : tensor<4x4xf32>
  %1 = torch.aten.mm.out(%x, %x, out = %b) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = torch.aten.as_strided.default(%a, [4], [1], 0) : (tensor<4x4xf32>) -> tensor<4xf32>
  %w = torch.aten.as_strided.default(%b, [4], [1]) : (tensor<4x4xf32>) -> tensor<4xf32>
  %s = torch.aten.sum.default(%v) : (tensor<4xf32>) -> tensor<f32>
  %t = torch.aten.sum.default(%w) : (tensor<4xf32>) -> tensor<f32>
  plan.free %a, %v, %b, %w : tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4xf32>
  fx.output((%s, %t)) : (tensor<f32>, tensor<f32>) -> ()
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>, schedule = #tile.schedule<"elementwise", stages = [0], lanes = 16, unroll = 1, block = 16>} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<16xf32>
  tile.store %a, %y[%zero] strides [1] : vector<16xf32>, !tile.ptr<f32>
  tile.return
}

/// Other sizes of the same bytes are a view; where the output is returned, of that. What an operator allocated is written over.
// CHECK-LABEL: func.func @views
// CHECK-NEXT:    %d = plan.alloc : tensor<4x4xf32>
// CHECK-NEXT:    torch.aten.mm.out(%x, %x, out = %d)
// CHECK-NEXT:    %b = plan.view %d : tensor<4x4xf32> to tensor<16xf32>
// CHECK-NEXT:    plan.launch @k(%d) outs(%b)
// CHECK-NEXT:    plan.launch @k(%b) outs(%b)
// CHECK-NEXT:    plan.launch @k(%b) outs(%d)
// CHECK-NEXT:    plan.free %b
// CHECK-NEXT:    %e = torch.aten.exp.default(%x)
// CHECK-NEXT:    plan.launch @k(%e) outs(%e)
// CHECK-NEXT:    fx.output((%d, %e))
func.func @views(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %a = plan.alloc : tensor<4x4xf32>
  %0 = torch.aten.mm.out(%x, %x, out = %a) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = plan.alloc : tensor<16xf32>
  plan.launch @k(%a) outs(%b) : (tensor<4x4xf32>) outs(tensor<16xf32>)
  plan.free %a : tensor<4x4xf32>
  %c = plan.alloc : tensor<16xf32>
  plan.launch @k(%b) outs(%c) : (tensor<16xf32>) outs(tensor<16xf32>)
  plan.free %b : tensor<16xf32>
  %d = plan.alloc : tensor<4x4xf32>
  plan.launch @k(%c) outs(%d) : (tensor<16xf32>) outs(tensor<4x4xf32>)
  plan.free %c : tensor<16xf32>
  %e = torch.aten.exp.default(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %f = plan.alloc : tensor<4x4xf32>
  plan.launch @k(%e) outs(%f) : (tensor<4x4xf32>) outs(tensor<4x4xf32>)
  plan.free %e : tensor<4x4xf32>
  fx.output((%d, %f)) : (tensor<4x4xf32>, tensor<4x4xf32>) -> ()
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>, schedule = #tile.schedule<"elementwise", stages = [0], lanes = 16, unroll = 1, block = 16>} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<16xf32>
  tile.store %a, %y[%zero] strides [1] : vector<16xf32>, !tile.ptr<f32>
  tile.return
}

/// The arena of a function lies in that of its caller, while it runs. It writes over an argument that each caller gives up, and
/// where that is what it computes, callers give one buffer.
// CHECK-LABEL: func.func private @f(%x: tensor<16xf32>, %arena: !plan.arena<64, "cpu">)
// CHECK-SAME:    plan.memory = {arena = 64 : i64, peak = 64 : i64, lower_bound = 64 : i64, sum = 64 : i64}
// CHECK-NEXT:    %t = plan.alloc %arena[0] : tensor<16xf32>
// CHECK-NEXT:    torch.aten.exp.out(%x, out = %t)
// CHECK-NEXT:    plan.launch @k(%x) outs(%x)
// CHECK-NEXT:    torch.aten.add.out(%x, %t, out = %t)
// CHECK-NEXT:    plan.free %t
// CHECK-NEXT:    func.return
// APART-LABEL: func.func private @f(%x: tensor<16xf32>, %y: tensor<16xf32>, %arena: !plan.arena<64, "cpu">)
func.func private @f(%x: tensor<16xf32>, %y: tensor<16xf32>) {
  %t = plan.alloc : tensor<16xf32>
  %0 = torch.aten.exp.out(%x, out = %t) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  plan.launch @k(%x) outs(%y) : (tensor<16xf32>) outs(tensor<16xf32>)
  %1 = torch.aten.add.out(%y, %t, out = %t) : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  plan.free %t : tensor<16xf32>
  func.return
}
// CHECK-LABEL: func.func @main
// CHECK-SAME:    plan.memory = {arena = 128 : i64, peak = 128 : i64, lower_bound = 128 : i64, sum = 192 : i64}
// CHECK-NEXT:    %arena = plan.arena : !plan.arena<128, "cpu">
// CHECK-NEXT:    %a = plan.alloc %arena[0] : tensor<16xf32>
// CHECK-NEXT:    torch.aten.exp.out(%x, out = %a)
// CHECK-NEXT:    %part = plan.alloc %arena[64] : !plan.arena<64, "cpu">
// CHECK-NEXT:    func.call @f(%a, %part)
// CHECK-NEXT:    plan.free %part
// CHECK-NEXT:    %part_1 = plan.alloc %arena[64] : !plan.arena<64, "cpu">
// CHECK-NEXT:    func.call @f(%a, %part_1)
// CHECK-NEXT:    plan.free %part_1
// CHECK-NEXT:    %s = torch.aten.sum.default(%a)
func.func @main(%x: tensor<16xf32>) -> tensor<f32> {
  %a = plan.alloc : tensor<16xf32>
  %0 = torch.aten.exp.out(%x, out = %a) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %b = plan.alloc : tensor<16xf32>
  func.call @f(%a, %b) {plan.borrows} : (tensor<16xf32>, tensor<16xf32>) -> ()
  plan.free %a : tensor<16xf32>
  %c = plan.alloc : tensor<16xf32>
  func.call @f(%b, %c) {plan.borrows} : (tensor<16xf32>, tensor<16xf32>) -> ()
  plan.free %b : tensor<16xf32>
  %s = torch.aten.sum.default(%c) : (tensor<16xf32>) -> tensor<f32>
  plan.free %c : tensor<16xf32>
  fx.output(%s) : (tensor<f32>) -> ()
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>, schedule = #tile.schedule<"elementwise", stages = [0], lanes = 16, unroll = 1, block = 16>} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<16xf32>
  tile.store %a, %y[%zero] strides [1] : vector<16xf32>, !tile.ptr<f32>
  tile.return
}

/// An argument that one caller uses later, or that is not the caller's own, is not written over. What a function may keep, as
/// nothing says that it does not, lies in no arena, nor does its own arena lie in one.
// CHECK-LABEL: func.func private @f(%x: tensor<16xf32>, %y: tensor<16xf32>)
// CHECK-NEXT:    plan.launch @k(%x) outs(%y)
func.func private @f(%x: tensor<16xf32>, %y: tensor<16xf32>) {
  plan.launch @k(%x) outs(%y) : (tensor<16xf32>) outs(tensor<16xf32>)
  func.return
}
func.func private @g(%x: tensor<16xf32>) {
  %t = plan.alloc : tensor<16xf32>
  plan.launch @k(%x) outs(%t) : (tensor<16xf32>) outs(tensor<16xf32>)
  plan.free %t : tensor<16xf32>
  func.return
}
// CHECK-LABEL: func.func private @g(%x: tensor<16xf32>)
// CHECK:         plan.arena
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %arena = plan.arena : !plan.arena<64, "cpu">
// CHECK-NEXT:    %a = plan.alloc : tensor<16xf32>
// CHECK-NEXT:    func.call @g(%a)
// CHECK-NEXT:    %b = plan.alloc : tensor<16xf32>
// CHECK-NEXT:    func.call @f(%a, %b)
// CHECK:         %c = plan.alloc %arena[0] : tensor<16xf32>
// CHECK-NEXT:    func.call @f(%x, %c)
func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
  %a = plan.alloc : tensor<16xf32>
  func.call @g(%a) : (tensor<16xf32>) -> ()
  %b = plan.alloc : tensor<16xf32>
  func.call @f(%a, %b) {plan.borrows} : (tensor<16xf32>, tensor<16xf32>) -> ()
  plan.free %a : tensor<16xf32>
  %c = plan.alloc : tensor<16xf32>
  func.call @f(%x, %c) {plan.borrows} : (tensor<16xf32>, tensor<16xf32>) -> ()
  plan.free %c : tensor<16xf32>
  fx.output(%b) : (tensor<16xf32>) -> ()
}
