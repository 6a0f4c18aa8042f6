// RUN: fxc-opt %s --split-input-file --pass-pipeline=write-arguments | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=write-arguments,write-arguments,write-in-place,plan-memory | filecheck %s --check-prefix=TWICE

/// The kernel writes over its argument, and says that it may.
// CHECK:         %x: !tile.ptr<f32> {tile.access = "read", tile.in_place}, %y: !tile.ptr<f32> {tile.access = "write", tile.in_place}
// CHECK-LABEL: func.func @over
// TWICE-LABEL: func.func @over
// TWICE-NEXT:    plan.launch @k(%x) outs(%x)
// CHECK-NEXT:    plan.launch @k(%x) outs(%x)
// CHECK-NEXT:    fx.output
tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {
  grid = array<i64: 1>,
  schedule = #tile.schedule<"elementwise", stages = [0], lanes = 32, unroll = 1, block = 32>
} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<32xf32>
  %n = arith.negf %a : vector<32xf32>
  tile.store %n, %y[%zero] strides [1] : vector<32xf32>, !tile.ptr<f32>
  tile.return
}
func.func @over(%x: tensor<32xf32>) {
  %b = plan.alloc : tensor<32xf32>
  plan.launch @k(%x) outs(%b) : (tensor<32xf32>) outs(tensor<32xf32>)
  %0 = torch.aten.copy_.default(%x, %b) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  plan.free %b : tensor<32xf32>
  fx.output(()) : () -> ()
}

// -----

/// It writes to another argument; what reads the buffer reads that.
// CHECK-LABEL: func.func @other
// CHECK-NEXT:    plan.launch @k(%x) outs(%y)
// CHECK-NEXT:    %s = torch.aten.sin.default(%y)
// CHECK-NEXT:    fx.output((%s,))
tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {
  grid = array<i64: 1>,
  schedule = #tile.schedule<"elementwise", stages = [0], lanes = 32, unroll = 1, block = 32>
} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<32xf32>
  %n = arith.negf %a : vector<32xf32>
  tile.store %n, %y[%zero] strides [1] : vector<32xf32>, !tile.ptr<f32>
  tile.return
}
func.func @other(%x: tensor<32xf32>, %y: tensor<32xf32>) {
  %b = plan.alloc : tensor<32xf32>
  plan.launch @k(%x) outs(%b) : (tensor<32xf32>) outs(tensor<32xf32>)
  %s = torch.aten.sin.default(%b) : (tensor<32xf32>) -> tensor<32xf32>
  %0 = torch.aten.copy_.default(%y, %b) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  plan.free %b : tensor<32xf32>
  fx.output((%s,)) : (tensor<32xf32>) -> ()
}

// -----

/// What the argument held before is read later.
// CHECK-LABEL: func.func @read_later
// CHECK-NEXT:    plan.alloc
// CHECK:         aten.copy_
tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {
  grid = array<i64: 1>,
  schedule = #tile.schedule<"elementwise", stages = [0], lanes = 32, unroll = 1, block = 32>
} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<32xf32>
  %n = arith.negf %a : vector<32xf32>
  tile.store %n, %y[%zero] strides [1] : vector<32xf32>, !tile.ptr<f32>
  tile.return
}
func.func @read_later(%x: tensor<32xf32>, %y: tensor<32xf32>) {
  %b = plan.alloc : tensor<32xf32>
  plan.launch @k(%x) outs(%b) : (tensor<32xf32>) outs(tensor<32xf32>)
  %s = torch.aten.sin.default(%y) : (tensor<32xf32>) -> tensor<32xf32>
  %0 = torch.aten.copy_.default(%y, %b) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  plan.free %b : tensor<32xf32>
  fx.output((%s,)) : (tensor<32xf32>) -> ()
}

// -----

/// So it is through a view.
// CHECK-LABEL: func.func @view_read_later
// CHECK-NEXT:    torch.aten.view.default
// CHECK-NEXT:    plan.alloc
// CHECK:         aten.copy_
tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {
  grid = array<i64: 1>,
  schedule = #tile.schedule<"elementwise", stages = [0], lanes = 32, unroll = 1, block = 32>
} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<32xf32>
  %n = arith.negf %a : vector<32xf32>
  tile.store %n, %y[%zero] strides [1] : vector<32xf32>, !tile.ptr<f32>
  tile.return
}
func.func @view_read_later(%x: tensor<32xf32>, %y: tensor<32xf32>) {
  %v = torch.aten.view.default(%y, [4, 8]) : (tensor<32xf32>) -> tensor<4x8xf32>
  %b = plan.alloc : tensor<32xf32>
  plan.launch @k(%x) outs(%b) : (tensor<32xf32>) outs(tensor<32xf32>)
  %s = torch.aten.sin.default(%v) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = torch.aten.copy_.default(%y, %b) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  plan.free %b : tensor<32xf32>
  fx.output((%s,)) : (tensor<4x8xf32>) -> ()
}

// -----

/// A view of the buffer is returned, which is to be no view of the argument.
// CHECK-LABEL: func.func @returned
// CHECK-NEXT:    plan.alloc
// CHECK:         aten.copy_
tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {
  grid = array<i64: 1>,
  schedule = #tile.schedule<"elementwise", stages = [0], lanes = 32, unroll = 1, block = 32>
} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<32xf32>
  %n = arith.negf %a : vector<32xf32>
  tile.store %n, %y[%zero] strides [1] : vector<32xf32>, !tile.ptr<f32>
  tile.return
}
func.func @returned(%x: tensor<32xf32>) {
  %b = plan.alloc : tensor<32xf32>
  plan.launch @k(%x) outs(%b) : (tensor<32xf32>) outs(tensor<32xf32>)
  %v = torch.aten.view.default(%b, [4, 8]) : (tensor<32xf32>) -> tensor<4x8xf32>
  %0 = torch.aten.copy_.default(%x, %b) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  plan.free %b : tensor<32xf32>
  fx.output((%v,)) : (tensor<4x8xf32>) -> ()
}

// -----

/// An operator writes to the buffer, too.
// CHECK-LABEL: func.func @written
// CHECK-NEXT:    plan.alloc
// CHECK:         aten.copy_
tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {
  grid = array<i64: 1>,
  schedule = #tile.schedule<"elementwise", stages = [0], lanes = 32, unroll = 1, block = 32>
} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<32xf32>
  %n = arith.negf %a : vector<32xf32>
  tile.store %n, %y[%zero] strides [1] : vector<32xf32>, !tile.ptr<f32>
  tile.return
}
func.func @written(%x: tensor<32xf32>) {
  %b = plan.alloc : tensor<32xf32>
  plan.launch @k(%x) outs(%b) : (tensor<32xf32>) outs(tensor<32xf32>)
  %s = torch.aten.sin_.default(%b) : (tensor<32xf32>) -> tensor<32xf32>
  %0 = torch.aten.copy_.default(%x, %b) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  plan.free %b : tensor<32xf32>
  fx.output(()) : () -> ()
}

// -----

/// A kernel that stores before it loads may not write over what it reads.
// CHECK-LABEL: func.func @late_load
// CHECK-NEXT:    plan.alloc
// CHECK:         aten.copy_
tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {
  grid = array<i64: 1>,
  schedule = #tile.schedule<"elementwise", stages = [0], lanes = 32, unroll = 1, block = 32>
} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<32xf32>
  %n = arith.negf %a : vector<32xf32>
  tile.store %n, %y[%zero] strides [1] : vector<32xf32>, !tile.ptr<f32>
  %c = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<32xf32>
  tile.return
}
func.func @late_load(%x: tensor<32xf32>) {
  %b = plan.alloc : tensor<32xf32>
  plan.launch @k(%x) outs(%b) : (tensor<32xf32>) outs(tensor<32xf32>)
  %0 = torch.aten.copy_.default(%x, %b) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  plan.free %b : tensor<32xf32>
  fx.output(()) : () -> ()
}

// -----

/// The argument is of another dtype.
// CHECK-LABEL: func.func @dtype
// CHECK-NEXT:    plan.alloc
// CHECK:         aten.copy_
tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {
  grid = array<i64: 1>,
  schedule = #tile.schedule<"elementwise", stages = [0], lanes = 32, unroll = 1, block = 32>
} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<32xf32>
  %n = arith.negf %a : vector<32xf32>
  tile.store %n, %y[%zero] strides [1] : vector<32xf32>, !tile.ptr<f32>
  tile.return
}
func.func @dtype(%x: tensor<32xf32>, %y: tensor<32xf64>) {
  %b = plan.alloc : tensor<32xf32>
  plan.launch @k(%x) outs(%b) : (tensor<32xf32>) outs(tensor<32xf32>)
  %0 = torch.aten.copy_.default(%y, %b) : (tensor<32xf64>, tensor<32xf32>) -> tensor<32xf64>
  plan.free %b : tensor<32xf32>
  fx.output(()) : () -> ()
}

// -----

/// The collective reads the argument until the wait, which comes after the kernel.
// CHECK-LABEL: func.func @collective
// CHECK:         plan.launch @k(%x) outs(%b)
// CHECK-NEXT:    torch._c10d_functional.wait_tensor.default
// CHECK-NEXT:    aten.copy_
tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {
  grid = array<i64: 1>,
  schedule = #tile.schedule<"elementwise", stages = [0], lanes = 32, unroll = 1, block = 32>
} {
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<32xf32>
  %n = arith.negf %a : vector<32xf32>
  tile.store %n, %y[%zero] strides [1] : vector<32xf32>, !tile.ptr<f32>
  tile.return
}
func.func @collective(%x: tensor<32xf32>) {
  %r = torch._c10d_functional.all_gather_into_tensor.default(%x, 2, "0") : (tensor<32xf32>) -> tensor<64xf32>
  %b = plan.alloc : tensor<32xf32>
  plan.launch @k(%x) outs(%b) : (tensor<32xf32>) outs(tensor<32xf32>)
  %w = torch._c10d_functional.wait_tensor.default(%r) : (tensor<64xf32>) -> tensor<64xf32>
  %0 = torch.aten.copy_.default(%x, %b) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  plan.free %b : tensor<32xf32>
  fx.output((%w,)) : (tensor<64xf32>) -> ()
}
