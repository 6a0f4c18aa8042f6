// RUN: fxc-opt %s --split-input-file --pass-pipeline=canonicalize,cse,dce | filecheck %s

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>} {
  tile.return
}

/// Two buffers are two, though their allocations are equal, and so are two launches of one kernel.
// CHECK-LABEL: func.func @two_buffers
// CHECK:         %b = plan.alloc
// CHECK-NEXT:    %c = plan.alloc
// CHECK-NEXT:    plan.launch @k(%x) outs(%b)
// CHECK-NEXT:    plan.launch @k(%x) outs(%c)
// CHECK-NEXT:    fx.output((%b, %c))
func.func @two_buffers(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %b = plan.alloc : tensor<4xf32>
  %c = plan.alloc : tensor<4xf32>
  plan.launch @k(%x) outs(%b) : (tensor<4xf32>) outs(tensor<4xf32>)
  plan.launch @k(%x) outs(%c) : (tensor<4xf32>) outs(tensor<4xf32>)
  fx.output((%b, %c)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>} {
  tile.return
}

/// What reads a buffer before and after it was written reads two things.
// CHECK-LABEL: func.func @written_between
// CHECK:         %s = torch.aten.sum.default(%b)
// CHECK:         %t = torch.aten.sum.default(%b)
func.func @written_between(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<f32>, tensor<f32>) {
  %b = plan.alloc : tensor<4xf32>
  plan.launch @k(%x) outs(%b) : (tensor<4xf32>) outs(tensor<4xf32>)
  %s = torch.aten.sum.default(%b) : (tensor<4xf32>) -> tensor<f32>
  plan.launch @k(%y) outs(%b) : (tensor<4xf32>) outs(tensor<4xf32>)
  %t = torch.aten.sum.default(%b) : (tensor<4xf32>) -> tensor<f32>
  plan.free %b : tensor<4xf32>
  fx.output((%s, %t)) : (tensor<f32>, tensor<f32>) -> ()
}

// -----

/// A name that was released stands for no later value, views too.
// CHECK-LABEL: func.func @released_between
// CHECK:         %s = torch.aten.exp.default(%x)
// CHECK:         plan.free %s
// CHECK-NEXT:    %t = torch.aten.exp.default(%x)
// CHECK:         %v = torch.aten.view.default(%t, [4])
// CHECK:         plan.free %v
// CHECK-NEXT:    %w = torch.aten.view.default(%t, [4])
func.func @released_between(%x: tensor<2x2xf32>) -> (tensor<f32>, tensor<4xf32>) {
  %s = torch.aten.exp.default(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %r = torch.aten.sum.default(%s) : (tensor<2x2xf32>) -> tensor<f32>
  plan.free %s : tensor<2x2xf32>
  %t = torch.aten.exp.default(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %v = torch.aten.view.default(%t, [4]) : (tensor<2x2xf32>) -> tensor<4xf32>
  %q = torch.aten.sum.default(%v) : (tensor<4xf32>) -> tensor<f32>
  plan.free %v : tensor<4xf32>
  %w = torch.aten.view.default(%t, [4]) : (tensor<2x2xf32>) -> tensor<4xf32>
  %p = torch.aten.add.Tensor(%r, %q) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  plan.free %r, %q : tensor<f32>, tensor<f32>
  fx.output((%p, %w)) : (tensor<f32>, tensor<4xf32>) -> ()
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>} {
  tile.return
}

/// A buffer that nothing reads goes, with what writes it. A release is a use.
// CHECK-LABEL: func.func @dead
// CHECK-NEXT:    %c = plan.alloc
// CHECK-NEXT:    plan.launch @k(%x) outs(%c)
// CHECK-NEXT:    plan.free %c
// CHECK-NEXT:    fx.output
func.func @dead(%x: tensor<4xf32>) -> tensor<4xf32> {
  %b = plan.alloc : tensor<4xf32>
  plan.launch @k(%x) outs(%b) : (tensor<4xf32>) outs(tensor<4xf32>)
  %c = plan.alloc : tensor<4xf32>
  plan.launch @k(%x) outs(%c) : (tensor<4xf32>) outs(tensor<4xf32>)
  plan.free %c : tensor<4xf32>
  fx.output(%x) : (tensor<4xf32>) -> ()
}

// -----

/// Events stay where they are.
// CHECK-LABEL: func.func @events
// CHECK:         plan.record {stream = 1 : i64}
// CHECK-NEXT:    plan.record {stream = 1 : i64}
// CHECK-NEXT:    plan.wait
func.func @events(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = plan.record {stream = 1} : !plan.event
  %f = plan.record {stream = 1} : !plan.event
  plan.wait %f {stream = 0}
  fx.output(%x) : (tensor<4xf32>) -> ()
}
