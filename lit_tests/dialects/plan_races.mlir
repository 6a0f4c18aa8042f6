// RUN: fxc-opt %s --split-input-file --verify-diagnostics

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>} {
  tile.return
}

/// Ordered: by the stream, by an event, and by one that came through a third stream.
func.func @ordered(%x: tensor<4xf32>) {
  %a = plan.alloc : tensor<4xf32>
  plan.launch @k(%x) outs(%a) : (tensor<4xf32>) outs(tensor<4xf32>)
  %e = plan.record {stream = 0} : !plan.event
  plan.wait %e {stream = 1}
  %f = plan.record {stream = 1} : !plan.event
  plan.wait %f {stream = 2}
  %b = plan.alloc {plan.stream = 2} : tensor<4xf32>
  plan.launch @k(%a) outs(%b) {plan.stream = 2} : (tensor<4xf32>) outs(tensor<4xf32>)
  %c = torch.aten.sin_.default(%b) {plan.stream = 2} : (tensor<4xf32>) -> tensor<4xf32>
  %g = plan.record {stream = 2} : !plan.event
  plan.wait %g {stream = 0}
  plan.free %b : tensor<4xf32>
  fx.output() : () -> ()
}

// -----

/// Both only read.
func.func @readers(%x: tensor<4xf32>) {
  %e = plan.record {stream = 0} : !plan.event
  plan.wait %e {stream = 1}
  %a = torch.aten.sin.default(%x) {plan.stream = 1} : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.cos.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %f = plan.record {stream = 1} : !plan.event
  plan.wait %f {stream = 0}
  fx.output() : () -> ()
}

// -----

/// A stream that never waited may run before what the caller started.
func.func @start(%x: tensor<4xf32>) {
  // expected-error@+1 {{torch.aten.sin.default of %a runs on stream 1, which waits for no event of what stream 0 did before the block}}
  %a = torch.aten.sin.default(%x) {plan.stream = 1} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : () -> ()
}

// -----

/// What the caller does next would not wait.
func.func @end(%x: tensor<4xf32>) {
  %e = plan.record {stream = 0} : !plan.event
  plan.wait %e {stream = 1}
  %a = torch.aten.sin.default(%x) {plan.stream = 1} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{fx.output comes while torch.aten.sin.default of %a on stream 1 may run: stream 0 waits for no event of it}}
  fx.output() : () -> ()
}

// -----

/// An event that is recorded too early.
func.func @early(%x: tensor<4xf32>) {
  %e = plan.record {stream = 0} : !plan.event
  %a = torch.aten.sin.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  plan.wait %e {stream = 1}
  // expected-error@+1 {{torch.aten.cos.default of %b on stream 1 reads %a, which torch.aten.sin.default of %a on stream 0 writes, and no event orders them}}
  %b = torch.aten.cos.default(%a) {plan.stream = 1} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : () -> ()
}

// -----

/// The wrong stream waits.
func.func @wrong(%x: tensor<4xf32>) {
  %e = plan.record {stream = 0} : !plan.event
  plan.wait %e {stream = 1}
  %a = torch.aten.sin.default(%x) {plan.stream = 1} : (tensor<4xf32>) -> tensor<4xf32>
  %f = plan.record {stream = 1} : !plan.event
  plan.wait %f {stream = 2}
  // expected-error@+1 {{torch.aten.cos.default of %b on stream 0 reads %a, which torch.aten.sin.default of %a on stream 1 writes, and no event orders them}}
  %b = torch.aten.cos.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : () -> ()
}

// -----

/// Written while it is read, through a view of it.
func.func @view(%x: tensor<4xf32>) {
  %e = plan.record {stream = 0} : !plan.event
  plan.wait %e {stream = 1}
  %v = torch.aten.view.default(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  %a = torch.aten.sin.default(%v) {plan.stream = 1} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-error@+1 {{torch.aten.copy_.default of %b on stream 0 writes %x, which torch.aten.sin.default of %a on stream 1 reads, and no event orders them}}
  %b = torch.aten.copy_.default(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output() : () -> ()
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>} {
  tile.return
}

/// Bytes of an arena that are used again, while another stream reads what was there.
func.func @again(%x: tensor<4xf32>) {
  %arena = plan.arena : !plan.arena<128, "cpu">
  %a = plan.alloc %arena[0] : tensor<4xf32>
  plan.launch @k(%x) outs(%a) : (tensor<4xf32>) outs(tensor<4xf32>)
  %e = plan.record {stream = 0} : !plan.event
  plan.wait %e {stream = 1}
  %b = plan.alloc %arena[64] : tensor<4xf32>
  plan.launch @k(%a) outs(%b) {plan.stream = 1} : (tensor<4xf32>) outs(tensor<4xf32>)
  plan.free %a : tensor<4xf32>
  %c = plan.alloc %arena[0] : tensor<4xf32>
  // expected-error@+1 {{plan.launch @k on stream 0 writes %c, which shares bytes with %a, which plan.launch @k on stream 1 reads, and no event orders them}}
  plan.launch @k(%x) outs(%c) : (tensor<4xf32>) outs(tensor<4xf32>)
  fx.output() : () -> ()
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>} {
  tile.return
}

/// What stream 0 allocates may be memory that it still works on.
func.func @allocated(%x: tensor<4xf32>) {
  %e = plan.record {stream = 0} : !plan.event
  plan.wait %e {stream = 1}
  %a = plan.alloc : tensor<4xf32>
  // expected-error@+1 {{plan.launch @k on stream 1 writes %a, which plan.alloc of %a on stream 0 writes, and no event orders them}}
  plan.launch @k(%x) outs(%a) {plan.stream = 1} : (tensor<4xf32>) outs(tensor<4xf32>)
  fx.output() : () -> ()
}

// -----

func.func @callee(%x: tensor<4xf32>) {
  func.return
}

/// What a function does is not known.
func.func @call(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %e = plan.record {stream = 0} : !plan.event
  plan.wait %e {stream = 1}
  %a = torch.aten.sin.default(%x) {plan.stream = 1} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{func.call on stream 0 may use any memory, which torch.aten.sin.default of %a on stream 1 writes, and no event orders them}}
  func.call @callee(%y) : (tensor<4xf32>) -> ()
  fx.output() : () -> ()
}

// -----

/// Two reads of one name are of one tensor.
fx.tensor @w : tensor<4xf32> {kind = "buffer"}
func.func @names(%x: tensor<4xf32>) {
  %w = fx.get_attr @w() : () -> tensor<4xf32>
  %e = plan.record {stream = 0} : !plan.event
  plan.wait %e {stream = 1}
  %a = torch.aten.sin.default(%w) {plan.stream = 1} : (tensor<4xf32>) -> tensor<4xf32>
  %v = fx.get_attr @w() : () -> tensor<4xf32>
  // expected-error@+1 {{torch.aten.copy_.default of %b on stream 0 writes %w, which torch.aten.sin.default of %a on stream 1 reads, and no event orders them}}
  %b = torch.aten.copy_.default(%v, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %f = plan.record {stream = 1} : !plan.event
  plan.wait %f {stream = 0}
  fx.output() : () -> ()
}
