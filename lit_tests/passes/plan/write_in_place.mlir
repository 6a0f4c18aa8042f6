// RUN: fxc-opt %s --split-input-file --pass-pipeline=write-in-place | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=write-in-place,write-in-place | filecheck %s

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>, schedule = #tile.schedule<"elementwise", stages = [0], lanes = 16, unroll = 1, block = 16>} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<16xf32>
  tile.store %a, %y[%zero] strides [1] : vector<16xf32>, !tile.ptr<f32>
  tile.return
}

/// A chain of kernels works in one buffer; without that, two places are used by turns. An argument is not written over.
// CHECK:         tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read", tile.in_place}, %y: !tile.ptr<f32> {tile.access = "write", tile.in_place})
// CHECK-LABEL: func.func @chain
// CHECK-NEXT:    %a = plan.alloc
// CHECK-NEXT:    plan.launch @k(%x) outs(%a)
// CHECK-NEXT:    plan.launch @k(%a) outs(%a)
// CHECK-NEXT:    plan.launch @k(%a) outs(%a)
// CHECK-NEXT:    %s = torch.aten.sum.default(%a)
// CHECK-NEXT:    plan.free %a
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

/// A function writes over an argument that each caller gives up, and where that is what it computes, callers give one buffer.
// CHECK-LABEL: func.func private @f(%x: tensor<16xf32>) {
// CHECK-NEXT:    plan.launch @k(%x) outs(%x)
// CHECK-NEXT:    func.return
func.func private @f(%x: tensor<16xf32>, %y: tensor<16xf32>) {
  plan.launch @k(%x) outs(%y) : (tensor<16xf32>) outs(tensor<16xf32>)
  func.return
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %a = plan.alloc : tensor<16xf32>
// CHECK-NEXT:    torch.aten.exp.out(%x, out = %a)
// CHECK-NEXT:    func.call @f(%a) {plan.borrows} : (tensor<16xf32>) -> ()
// CHECK-NEXT:    func.call @f(%a)
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

/// Not over an argument that one caller uses later, or that is not the caller's own.
// CHECK-LABEL: func.func private @f(%x: tensor<16xf32>, %y: tensor<16xf32>)
// CHECK-NEXT:    plan.launch @k(%x) outs(%y)
// CHECK-LABEL: func.func private @g(%x: tensor<16xf32>, %y: tensor<16xf32>)
// CHECK-NEXT:    plan.launch @k(%x) outs(%y)
func.func private @f(%x: tensor<16xf32>, %y: tensor<16xf32>) {
  plan.launch @k(%x) outs(%y) : (tensor<16xf32>) outs(tensor<16xf32>)
  func.return
}
func.func private @g(%x: tensor<16xf32>, %y: tensor<16xf32>) {
  plan.launch @k(%x) outs(%y) : (tensor<16xf32>) outs(tensor<16xf32>)
  func.return
}
func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
  %a = plan.alloc : tensor<16xf32>
  func.call @f(%x, %a) {plan.borrows} : (tensor<16xf32>, tensor<16xf32>) -> ()
  %b = plan.alloc : tensor<16xf32>
  func.call @f(%a, %b) {plan.borrows} : (tensor<16xf32>, tensor<16xf32>) -> ()
  plan.free %a : tensor<16xf32>
  %c = plan.alloc : tensor<16xf32>
  func.call @g(%b, %c) {plan.borrows} : (tensor<16xf32>, tensor<16xf32>) -> ()
  %d = plan.alloc : tensor<16xf32>
  func.call @g(%c, %d) {plan.borrows} : (tensor<16xf32>, tensor<16xf32>) -> ()
  plan.free %c : tensor<16xf32>
  %r = torch.aten.add.Tensor(%b, %d) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  plan.free %b, %d : tensor<16xf32>, tensor<16xf32>
  fx.output(%r) : (tensor<16xf32>) -> ()
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>, schedule = #tile.schedule<"elementwise", stages = [0], lanes = 16, unroll = 1, block = 16>} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<16xf32>
  tile.store %a, %y[%zero] strides [1] : vector<16xf32>, !tile.ptr<f32>
  tile.return
}

/// A function computes its result where an argument was that each caller gives up, once nothing uses that, or a view of it. Of
/// what callers keep, of another type, or used until then, nothing is written.
// CHECK-LABEL: func.func private @f(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) {
// CHECK-NEXT:    %v = torch.aten.t.default(%x)
// CHECK-NEXT:    %p = torch.aten.mm.default(%v, %w)
// CHECK:         torch.aten.sum.IntList_out(%q, [0], out = %x)
func.func private @f(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %y: tensor<4x4xf32>) {
  %v = torch.aten.t.default(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32, #torch.meta<strides = [1, 4]>>
  %p = torch.aten.mm.default(%v, %w) : (tensor<4x4xf32, #torch.meta<strides = [1, 4]>>, tensor<4x4xf32>) -> tensor<4x4xf32>
  plan.free %v : tensor<4x4xf32, #torch.meta<strides = [1, 4]>>
  %q = torch.aten.stack.default([%p, %w]) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x4x4xf32>
  plan.free %p : tensor<4x4xf32>
  %0 = torch.aten.sum.IntList_out(%q, [0], out = %y) : (tensor<2x4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  plan.free %q : tensor<2x4x4xf32>
  func.return
}
// CHECK-LABEL: func.func private @g(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %y: tensor<4x4xf32>)
// CHECK:         torch.aten.mm.out(%x, %w, out = %y)
func.func private @g(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %y: tensor<4x4xf32>) {
  %0 = torch.aten.mm.out(%x, %w, out = %y) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return
}
// CHECK-LABEL: func.func @main
// CHECK:         func.call @f(%a, %w) {plan.borrows}
// CHECK-NEXT:    func.call @f(%a, %w)
// CHECK-NEXT:    %d = plan.alloc
// CHECK-NEXT:    func.call @g(%a, %w, %d)
func.func @main(%w: tensor<4x4xf32>) -> tensor<f32> {
  %a = plan.alloc : tensor<4x4xf32>
  %0 = torch.aten.exp.out(%w, out = %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = plan.alloc : tensor<4x4xf32>
  func.call @f(%a, %w, %b) {plan.borrows} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> ()
  plan.free %a : tensor<4x4xf32>
  %c = plan.alloc : tensor<4x4xf32>
  func.call @f(%b, %w, %c) {plan.borrows} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> ()
  plan.free %b : tensor<4x4xf32>
  %d = plan.alloc : tensor<4x4xf32>
  func.call @g(%c, %w, %d) {plan.borrows} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> ()
  plan.free %c : tensor<4x4xf32>
  %s = torch.aten.sum.default(%d) : (tensor<4x4xf32>) -> tensor<f32>
  plan.free %d : tensor<4x4xf32>
  fx.output(%s) : (tensor<f32>) -> ()
}

// -----

/// A convolution that adds an image is computed into that.
// CHECK-LABEL: func.func @sum
// CHECK:         torch.mkldnn._convolution_pointwise_.binary(%a, %x, %w, none, [0, 0], [1, 1], [1, 1], 1, "add", none, "relu", [], none)
// CHECK-NEXT:    fx.output(%a)
func.func @sum(%x: tensor<1x3x4x4xf32, #torch.meta<strides = [48, 1, 12, 3]>>, %w: tensor<3x3x1x1xf32>) -> tensor<1x3x4x4xf32, #torch.meta<strides = [48, 1, 12, 3]>> {
  %a = torch.aten.exp.default(%x) : (tensor<1x3x4x4xf32, #torch.meta<strides = [48, 1, 12, 3]>>) -> tensor<1x3x4x4xf32, #torch.meta<strides = [48, 1, 12, 3]>>
  %y = torch.mkldnn._convolution_pointwise.binary(%x, %a, %w, none, [0, 0], [1, 1], [1, 1], 1, "add", none, "relu", [], none) : (tensor<1x3x4x4xf32, #torch.meta<strides = [48, 1, 12, 3]>>, tensor<1x3x4x4xf32, #torch.meta<strides = [48, 1, 12, 3]>>, tensor<3x3x1x1xf32>) -> tensor<1x3x4x4xf32, #torch.meta<strides = [48, 1, 12, 3]>>
  plan.free %a : tensor<1x3x4x4xf32, #torch.meta<strides = [48, 1, 12, 3]>>
  fx.output(%y) : (tensor<1x3x4x4xf32, #torch.meta<strides = [48, 1, 12, 3]>>) -> ()
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}, %n: index) attributes {grid = affine_map<(d0) -> (d0 ceildiv 16)>, schedule = #tile.schedule<"elementwise", stages = [0], lanes = 16, unroll = 1, block = 16>} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<16xf32>
  tile.store %a, %y[%zero] strides [1] : vector<16xf32>, !tile.ptr<f32>
  tile.return
}

/// Sizes that are not known are the same where types are.
// CHECK-LABEL: func.func @unknown
// CHECK:         plan.launch @k(%a, %n) outs(%a)
func.func @unknown(%n: !torch.int<"s0">, %x: tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>> {
  %a = torch.aten.exp.default(%x) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %b = plan.alloc(%n) : tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  plan.launch @k(%a, %n) outs(%b) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, !torch.int<"s0">) outs(tensor<?xf32, #torch.meta<sizes = ["s0"]>>)
  plan.free %a : tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  fx.output(%b) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> ()
}
