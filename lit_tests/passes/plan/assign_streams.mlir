// RUN: fxc-opt %s --split-input-file --pass-pipeline=assign-streams | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=assign-streams,assign-streams | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline='assign-streams{streams=3}' | filecheck %s --check-prefix=THREE
// RUN: fxc-opt %s --split-input-file --pass-pipeline='assign-streams{streams=1}' | filecheck %s --check-prefix=ONE
// ONE-NOT: plan.record

!t = tensor<512x512xf32, #torch.meta<device = "cuda:0">>
tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 16>} {
  tile.return
}

/// Two chains of launches and calls in an arena.
// CHECK-LABEL: func.func @chains
// CHECK-NEXT:    %arena = plan.arena
// CHECK-NEXT:    %event = plan.record {stream = 0 : i64} : !plan.event
// CHECK-NEXT:    %a = plan.alloc %arena[0]
// CHECK-NEXT:    %0 = torch.aten.mm.out(%x, %x, out = %a) :
// CHECK-NEXT:    %b = plan.alloc %arena[1048576]
// CHECK-NEXT:    plan.wait %event {stream = 1 : i64}
// CHECK-NEXT:    %1 = torch.aten.mm.out(%x, %x, out = %b) {plan.stream = 1 : i64}
// CHECK-NEXT:    %c = plan.alloc %arena[2097152]
// CHECK-NEXT:    plan.launch @k(%a) outs(%c) :
// CHECK-NEXT:    plan.free %a
// CHECK-NEXT:    %d = plan.alloc %arena[3145728]
// CHECK-NEXT:    plan.launch @k(%b) outs(%d) {plan.stream = 1 : i64}
// CHECK-NEXT:    %event_1 = plan.record {stream = 1 : i64} : !plan.event
// CHECK-NEXT:    plan.free %b
// CHECK-NEXT:    plan.wait %event_1 {stream = 0 : i64}
// CHECK-NEXT:    %r = torch.aten.add.Tensor(%c, %d) :
// CHECK-NEXT:    plan.free %c, %d
// CHECK-NEXT:    fx.output(%r)
func.func @chains(%x: !t) -> !t {
  %arena = plan.arena : !plan.arena<4194304, "cuda:0">
  %a = plan.alloc %arena[0] : !t
  %0 = torch.aten.mm.out(%x, %x, out = %a) : (!t, !t, !t) -> !t
  %b = plan.alloc %arena[1048576] : !t
  %1 = torch.aten.mm.out(%x, %x, out = %b) : (!t, !t, !t) -> !t
  %c = plan.alloc %arena[2097152] : !t
  plan.launch @k(%a) outs(%c) : (!t) outs(!t)
  plan.free %a : !t
  %d = plan.alloc %arena[3145728] : !t
  plan.launch @k(%b) outs(%d) : (!t) outs(!t)
  plan.free %b : !t
  %r = torch.aten.add.Tensor(%c, %d) : (!t, !t) -> !t
  plan.free %c, %d : !t, !t
  fx.output(%r) : (!t) -> ()
}

// -----

!t = tensor<512x512xf32, #torch.meta<device = "cuda:0">>

/// Bytes are used again: what writes them waits for what read them on the other stream.
// CHECK-LABEL: func.func @again
// CHECK:         %s = torch.aten.mm.default(%b, %b) {plan.stream = 1 : i64}
// CHECK-NEXT:    %event_1 = plan.record {stream = 1 : i64}
// CHECK:         %t = torch.aten.mm.default(%a, %a) :
// CHECK-NEXT:    plan.free %a
// CHECK-NEXT:    plan.wait %event_1 {stream = 0 : i64}
// CHECK-NEXT:    %2 = torch.aten.mm.out(%t, %t, out = %c) :
// CHECK-NOT:     plan.wait
// CHECK:         fx.output
func.func @again(%x: !t) -> (!t, !t) {
  %arena = plan.arena : !plan.arena<2097152, "cuda:0">
  %a = plan.alloc %arena[0] : !t
  %0 = torch.aten.mm.out(%x, %x, out = %a) : (!t, !t, !t) -> !t
  %b = plan.alloc %arena[1048576] : !t
  %1 = torch.aten.mm.out(%x, %x, out = %b) : (!t, !t, !t) -> !t
  %s = torch.aten.mm.default(%b, %b) : (!t, !t) -> !t
  plan.free %b : !t
  %c = plan.alloc %arena[1048576] : !t
  %t = torch.aten.mm.default(%a, %a) : (!t, !t) -> !t
  plan.free %a : !t
  %2 = torch.aten.mm.out(%t, %t, out = %c) : (!t, !t, !t) -> !t
  plan.free %t : !t
  %r = torch.aten.mm.default(%c, %c) : (!t, !t) -> !t
  plan.free %c : !t
  fx.output((%r, %s)) : (!t, !t) -> ()
}

// -----

!t = tensor<512x512xf32, #torch.meta<device = "cuda:0">>

/// A buffer of its own is made on the stream of its first use; a view runs nowhere.
// CHECK-LABEL: func.func @own
// CHECK-NEXT:    %event = plan.record {stream = 0 : i64}
// CHECK-NEXT:    %v = torch.aten.t.default(%x) :
// CHECK-NEXT:    %a = plan.alloc :
// CHECK-NEXT:    %0 = torch.aten.mm.out(%x, %x, out = %a) :
// CHECK-NEXT:    %b = plan.alloc {plan.stream = 1 : i64} :
// CHECK-NEXT:    plan.wait %event {stream = 1 : i64}
// CHECK-NEXT:    %1 = torch.aten.mm.out(%v, %x, out = %b) {plan.stream = 1 : i64}
// CHECK-NEXT:    %event_1 = plan.record {stream = 1 : i64}
// CHECK-NEXT:    plan.free %v
// CHECK-NEXT:    plan.wait %event_1 {stream = 0 : i64}
// CHECK-NEXT:    fx.output((%a, %b))
func.func @own(%x: !t) -> (!t, !t) {
  %v = torch.aten.t.default(%x) : (!t) -> tensor<512x512xf32, #torch.meta<strides = [1, 512], device = "cuda:0">>
  %a = plan.alloc : !t
  %0 = torch.aten.mm.out(%x, %x, out = %a) : (!t, !t, !t) -> !t
  %b = plan.alloc : !t
  %1 = torch.aten.mm.out(%v, %x, out = %b) : (tensor<512x512xf32, #torch.meta<strides = [1, 512], device = "cuda:0">>, !t, !t) -> !t
  plan.free %v : tensor<512x512xf32, #torch.meta<strides = [1, 512], device = "cuda:0">>
  fx.output((%a, %b)) : (!t, !t) -> ()
}

// -----

!t = tensor<512x512xf32, #torch.meta<device = "cuda:0">>

/// What is called may use anything, and what draws does so in order: both on stream 0, and the call between events.
// CHECK-LABEL: func.func @barrier
// CHECK-NEXT:    %event = plan.record {stream = 0 : i64}
// CHECK-NEXT:    %a = torch.aten.mm.default(%x, %x) :
// CHECK-NEXT:    plan.wait %event {stream = 1 : i64}
// CHECK-NEXT:    %b = torch.aten.mm.default(%x, %x) {plan.stream = 1 : i64}
// CHECK-NEXT:    %event_1 = plan.record {stream = 1 : i64}
// CHECK-NEXT:    plan.wait %event_1 {stream = 0 : i64}
// CHECK-NEXT:    func.call @callee(%x) :
// CHECK-NEXT:    %c = torch.aten.rand_like.default(%a) :
// CHECK-NEXT:    plan.free %a
// CHECK-NEXT:    fx.output((%b, %c))
func.func @callee(%x: !t) {
  func.return
}
func.func @barrier(%x: !t) -> (!t, !t) {
  %a = torch.aten.mm.default(%x, %x) : (!t, !t) -> !t
  %b = torch.aten.mm.default(%x, %x) : (!t, !t) -> !t
  func.call @callee(%x) : (!t) -> ()
  %c = torch.aten.rand_like.default(%a) : (!t) -> !t
  plan.free %a : !t
  fx.output((%b, %c)) : (!t, !t) -> ()
}

// -----

!t = tensor<512x512xf32, #torch.meta<device = "cuda:0">>

/// Three chains: on three streams where there are so many.
// CHECK-LABEL: func.func @three
// CHECK:         %b = torch.aten.mm.default(%x, %x) {plan.stream = 1 : i64}
// CHECK:         %c = torch.aten.mm.default(%x, %x) :
// CHECK-NEXT:    %d = torch.aten.mm.default(%c, %c) :
// THREE-LABEL: func.func @three
// THREE-NEXT:    %event = plan.record {stream = 0 : i64}
// THREE-NEXT:    %a = torch.aten.mm.default(%x, %x) :
// THREE-NEXT:    plan.wait %event {stream = 1 : i64}
// THREE-NEXT:    %b = torch.aten.mm.default(%x, %x) {plan.stream = 1 : i64}
// THREE-NEXT:    %event_1 = plan.record {stream = 1 : i64}
// THREE-NEXT:    plan.wait %event {stream = 2 : i64}
// THREE-NEXT:    %c = torch.aten.mm.default(%x, %x) {plan.stream = 2 : i64}
// THREE-NEXT:    %d = torch.aten.mm.default(%c, %c) {plan.stream = 2 : i64}
// THREE-NEXT:    %event_2 = plan.record {stream = 2 : i64}
// THREE-NEXT:    plan.free %d
// THREE-NEXT:    plan.wait %event_1 {stream = 0 : i64}
// THREE-NEXT:    plan.wait %event_2 {stream = 0 : i64}
// THREE-NEXT:    fx.output((%a, %b, %c))
func.func @three(%x: !t) -> (!t, !t, !t) {
  %a = torch.aten.mm.default(%x, %x) : (!t, !t) -> !t
  %b = torch.aten.mm.default(%x, %x) : (!t, !t) -> !t
  %c = torch.aten.mm.default(%x, %x) : (!t, !t) -> !t
  %d = torch.aten.mm.default(%c, %c) : (!t, !t) -> !t
  plan.free %d : !t
  fx.output((%a, %b, %c)) : (!t, !t, !t) -> ()
}

// -----

!s = tensor<16x16xf32, #torch.meta<device = "cuda:0">>
!t = tensor<16384x16384xf32, #torch.meta<device = "cuda:0">>

/// Not worth it: what takes less time than an event, and what leaves nothing of the machine to others.
// CHECK-LABEL: func.func @small
// CHECK-NOT:     plan.record
// CHECK:         fx.output
func.func @small(%x: !s, %y: !t) -> (!s, !s, !t, !t) {
  %a = torch.aten.mm.default(%x, %x) : (!s, !s) -> !s
  %b = torch.aten.mm.default(%x, %x) : (!s, !s) -> !s
  %c = torch.aten.mm.default(%y, %y) : (!t, !t) -> !t
  %d = torch.aten.mm.default(%y, %y) : (!t, !t) -> !t
  %e = plan.alloc : !s
  plan.free %e : !s
  fx.output((%a, %b, %c, %d)) : (!s, !s, !t, !t) -> ()
}

// -----

/// Nor where the target says that events cost more.
// CHECK-LABEL: func.func @costly
// CHECK-NOT:     plan.record
// CHECK:         fx.output
builtin.module attributes {fxc.target = #target.gpu<event = 100000000>} {
  func.func @costly(%x: tensor<512x512xf32, #torch.meta<device = "cuda:0">>) {
    %a = torch.aten.mm.default(%x, %x) : (tensor<512x512xf32, #torch.meta<device = "cuda:0">>, tensor<512x512xf32, #torch.meta<device = "cuda:0">>) -> tensor<512x512xf32, #torch.meta<device = "cuda:0">>
    %b = torch.aten.mm.default(%x, %x) : (tensor<512x512xf32, #torch.meta<device = "cuda:0">>, tensor<512x512xf32, #torch.meta<device = "cuda:0">>) -> tensor<512x512xf32, #torch.meta<device = "cuda:0">>
    plan.free %a, %b : tensor<512x512xf32, #torch.meta<device = "cuda:0">>, tensor<512x512xf32, #torch.meta<device = "cuda:0">>
    fx.output(()) : () -> ()
  }
}

// -----

!t = tensor<512x512xf32>
!u = tensor<512x512xf32, #torch.meta<device = "cuda:0">>
!v = tensor<512x512xf32, #torch.meta<device = "cuda:1">>

/// Left alone: the CPU, two devices, no plan.
// CHECK-LABEL: func.func @cpu
// CHECK-NOT:     plan.record
// CHECK-LABEL: func.func @devices
// CHECK-NOT:     plan.record
// CHECK-LABEL: func.func @no_plan
// CHECK-NOT:     plan.record
// CHECK:         fx.output
func.func @cpu(%x: !t) {
  %a = torch.aten.mm.default(%x, %x) : (!t, !t) -> !t
  %b = torch.aten.mm.default(%x, %x) : (!t, !t) -> !t
  plan.free %a, %b : !t, !t
  fx.output(()) : () -> ()
}
func.func @devices(%x: !u, %y: !v) {
  %a = torch.aten.mm.default(%x, %x) : (!u, !u) -> !u
  %b = torch.aten.mm.default(%y, %y) : (!v, !v) -> !v
  plan.free %a, %b : !u, !v
  fx.output(()) : () -> ()
}
func.func @no_plan(%x: !u) -> (!u, !u) {
  %a = torch.aten.mm.default(%x, %x) : (!u, !u) -> !u
  %b = torch.aten.mm.default(%x, %x) : (!u, !u) -> !u
  fx.output((%a, %b)) : (!u, !u) -> ()
}

// -----

!t = tensor<512x512xf32, #torch.meta<device = "cuda:0">>

/// Tensors on the host are read there, in the order of the program.
// CHECK-LABEL: func.func @host
// CHECK-NOT:     plan.stream
// CHECK:         fx.output
func.func @host(%x: !t, %n: tensor<f32>) -> (!t, !t) {
  %a = torch.aten.mm.default(%x, %x) : (!t, !t) -> !t
  %b = torch.aten.mul.Tensor(%x, %n) : (!t, tensor<f32>) -> !t
  %c = torch.aten.item.default(%n) : (tensor<f32>) -> !torch.float
  %d = torch.aten.mul.Scalar(%a, %c) : (!t, !torch.float) -> !t
  plan.free %a : !t
  fx.output((%b, %d)) : (!t, !t) -> ()
}
