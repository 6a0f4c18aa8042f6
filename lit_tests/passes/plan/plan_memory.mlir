// RUN: fxc-opt %s --split-input-file --pass-pipeline=plan-memory | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=plan-memory,plan-memory | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline='plan-memory{largest=512}' | filecheck %s --check-prefix=SMALL

torch.operator @mylib.keep.default "(Tensor x) -> Tensor" flags ""

/// Not in an arena: what is returned, in a view too; what somebody's own operator, or a higher-order one, may keep; what is
/// never released; what has no bytes.
// CHECK-LABEL: func.func @outside
// CHECK-SAME:    plan.memory = {arena = 64 : i64, peak = 320 : i64, lower_bound = 320 : i64, sum = 384 : i64}
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

/// Buffers that are larger than asked for stay apart.
// CHECK-LABEL: func.func @large
// CHECK:         %a = plan.alloc %arena
// CHECK:         %b = plan.alloc %arena
// SMALL-LABEL: func.func @large
// SMALL-SAME:    plan.memory = {arena = 64 : i64, peak = 1216 : i64, lower_bound = 1216 : i64, sum = 1216 : i64}
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

/// The arena of a function lies in that of its caller while it runs; calls one after the other have the same bytes.
// CHECK-LABEL: func.func private @f(%x: tensor<16xf32>, %y: tensor<16xf32>, %arena: !plan.arena<64, "cpu">)
// CHECK-SAME:    plan.memory = {arena = 64 : i64, peak = 64 : i64, lower_bound = 64 : i64, sum = 64 : i64}
// CHECK-NEXT:    %t = plan.alloc %arena[0] : tensor<16xf32>
func.func private @f(%x: tensor<16xf32>, %y: tensor<16xf32>) {
  %t = plan.alloc : tensor<16xf32>
  %0 = torch.aten.exp.out(%x, out = %t) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %1 = torch.aten.add.out(%x, %t, out = %y) : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  plan.free %t : tensor<16xf32>
  func.return
}
// CHECK-LABEL: func.func @main
// CHECK-SAME:    plan.memory = {arena = 192 : i64, peak = 256 : i64, lower_bound = 192 : i64, sum = 320 : i64}
// CHECK-NEXT:    %arena = plan.arena : !plan.arena<192, "cpu">
// CHECK-NEXT:    %a = plan.alloc %arena[0] : tensor<16xf32>
// CHECK-NEXT:    %part = plan.alloc %arena[64] : !plan.arena<64, "cpu">
// CHECK-NEXT:    func.call @f(%x, %a, %part) {plan.borrows} : (tensor<16xf32>, tensor<16xf32>, !plan.arena<64, "cpu">) -> ()
// CHECK-NEXT:    plan.free %part
// CHECK-NEXT:    %b = plan.alloc %arena[64] : tensor<16xf32>
// CHECK-NEXT:    %part_1 = plan.alloc %arena[128] : !plan.arena<64, "cpu">
// CHECK-NEXT:    func.call @f(%a, %b, %part_1)
// CHECK-NEXT:    plan.free %part_1
func.func @main(%x: tensor<16xf32>) -> tensor<f32> {
  %a = plan.alloc : tensor<16xf32>
  func.call @f(%x, %a) {plan.borrows} : (tensor<16xf32>, tensor<16xf32>) -> ()
  %b = plan.alloc : tensor<16xf32>
  func.call @f(%a, %b) {plan.borrows} : (tensor<16xf32>, tensor<16xf32>) -> ()
  plan.free %a : tensor<16xf32>
  %s = torch.aten.sum.default(%b) : (tensor<16xf32>) -> tensor<f32>
  plan.free %b : tensor<16xf32>
  fx.output(%s) : (tensor<f32>) -> ()
}

// -----

/// What a function may keep, as nothing says that it does not, lies in no arena, nor does its own arena lie in one.
// CHECK-LABEL: func.func private @g(%x: tensor<16xf32>)
// CHECK:         plan.arena
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %a = plan.alloc : tensor<16xf32>
// CHECK-NEXT:    func.call @g(%a) : (tensor<16xf32>) -> ()
func.func private @g(%x: tensor<16xf32>) {
  %t = plan.alloc : tensor<16xf32>
  %0 = torch.aten.exp.out(%x, out = %t) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  plan.free %t : tensor<16xf32>
  func.return
}
func.func @main() {
  %a = plan.alloc : tensor<16xf32>
  func.call @g(%a) : (tensor<16xf32>) -> ()
  plan.free %a : tensor<16xf32>
  fx.output(()) : () -> ()
}

// -----

/// A buffer that is released before an operator takes as much would be there still in an arena, which lasts for the call.
// CHECK-LABEL: func.func @brief
// CHECK-SAME:    plan.memory = {arena = 64 : i64, peak = 262208 : i64, lower_bound = 262208 : i64, sum = 524352 : i64}
// CHECK:         %a = plan.alloc {plan.short_lived} : tensor<256x256xf32>
// CHECK:         %s = plan.alloc %arena[0] : tensor<f32>
// SMALL-LABEL: func.func @brief
// SMALL:         %a = plan.alloc {plan.short_lived} : tensor<256x256xf32>
func.func @brief(%x: tensor<256x256xf32>) -> tensor<256xf32> {
  %a = plan.alloc : tensor<256x256xf32>
  %0 = torch.aten.exp.out(%x, out = %a) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %s = plan.alloc : tensor<f32>
  %1 = torch.aten.sum.out(%a, out = %s) : (tensor<256x256xf32>, tensor<f32>) -> tensor<f32>
  plan.free %a : tensor<256x256xf32>
  %u = torch.aten.add.Tensor(%x, %s) : (tensor<256x256xf32>, tensor<f32>) -> tensor<256x256xf32>
  plan.free %s : tensor<f32>
  %r = torch.aten.select.int(%u, 0, 0) : (tensor<256x256xf32>) -> tensor<256xf32>
  plan.free %u : tensor<256x256xf32>
  fx.output(%r) : (tensor<256xf32>) -> ()
}

// -----

/// Nothing is gained where what an operator takes is there at the same time; nor does what a function that is called takes on
/// the way come to more than the buffers around it.
// CHECK-LABEL: func.func private @f
// CHECK:         %t = plan.alloc {plan.short_lived} : tensor<256x256xf32>
func.func private @f(%x: tensor<256x256xf32>, %y: tensor<256x256xf32>) {
  %t = plan.alloc : tensor<256x256xf32>
  %0 = torch.aten.exp.out(%x, out = %t) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %1 = torch.aten.sin.out(%t, out = %y) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  plan.free %t : tensor<256x256xf32>
  %u = torch.aten.cos.default(%x) : (tensor<256x256xf32>) -> tensor<256x256xf32>
  %2 = torch.aten.add_.Tensor(%y, %u) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  plan.free %u : tensor<256x256xf32>
  func.return
}
// CHECK-LABEL: func.func @main
// CHECK-SAME:    plan.memory = {arena = 262144 : i64, peak = 524288 : i64, lower_bound = 524288 : i64, sum = 524352 : i64}
// CHECK-NEXT:    %arena = plan.arena
// CHECK-NEXT:    %a = plan.alloc %arena[0] : tensor<256x256xf32>
func.func @main(%x: tensor<256x256xf32>) -> tensor<f32> {
  %a = plan.alloc : tensor<256x256xf32>
  func.call @f(%x, %a) {plan.borrows} : (tensor<256x256xf32>, tensor<256x256xf32>) -> ()
  %s = torch.aten.sum.default(%a) : (tensor<256x256xf32>) -> tensor<f32>
  plan.free %a : tensor<256x256xf32>
  fx.output(%s) : (tensor<f32>) -> ()
}

// -----

/// What a function takes on another device lies beside nothing here: `%a`, of 256 KiB, is over before, and stays in the arena.
// CHECK-LABEL: func.func @devices
// CHECK-SAME:    plan.memory = {arena = 262144 : i64, peak = 1310784 : i64, lower_bound = 1310784 : i64, sum = 1310784 : i64}
// CHECK:         %a = plan.alloc %arena[0] : tensor<256x256xf32>
func.func private @there(%x: tensor<512x512xf32, #torch.meta<device = "cuda:0">>) {
  %0 = torch.aten.exp.default(%x) : (tensor<512x512xf32, #torch.meta<device = "cuda:0">>) -> tensor<512x512xf32, #torch.meta<device = "cuda:0">>
  plan.free %0 : tensor<512x512xf32, #torch.meta<device = "cuda:0">>
  func.return
}
func.func @devices(%x: tensor<256x256xf32>, %y: tensor<512x512xf32, #torch.meta<device = "cuda:0">>) -> tensor<f32> {
  %a = plan.alloc : tensor<256x256xf32>
  %0 = torch.aten.exp.out(%x, out = %a) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %s = torch.aten.sum.default(%a) : (tensor<256x256xf32>) -> tensor<f32>
  plan.free %a : tensor<256x256xf32>
  func.call @there(%y) {plan.borrows} : (tensor<512x512xf32, #torch.meta<device = "cuda:0">>) -> ()
  fx.output(%s) : (tensor<f32>) -> ()
}

// -----

/// A collective reads its operand until its wait: no buffer after its start has the memory of the operand.
// CHECK-LABEL: func.func @in_flight
// CHECK:         %a = plan.alloc : tensor<8xf32>
// CHECK:         torch._c10d_functional.all_reduce.default(%a
// CHECK:         %b = plan.alloc %arena[0]
// SMALL-LABEL: func.func @in_flight
func.func @in_flight(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = plan.alloc : tensor<8xf32>
  %0 = torch.aten.exp.out(%x, out = %a) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %r = torch._c10d_functional.all_reduce.default(%a, "sum", "7") : (tensor<8xf32>) -> tensor<8xf32>
  plan.free %a : tensor<8xf32>
  %b = plan.alloc : tensor<8xf32>
  %1 = torch.aten.sin.out(%x, out = %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %y = torch._c10d_functional.wait_tensor.default(%r) : (tensor<8xf32>) -> tensor<8xf32>
  %d = torch.aten.add.Tensor(%y, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  plan.free %b : tensor<8xf32>
  fx.output((%d,)) : (tensor<8xf32>) -> ()
}
