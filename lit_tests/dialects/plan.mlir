// RUN: fxc-opt %s --split-input-file | filecheck %s
// RUN: fxc-opt %s --split-input-file | fxc-opt --split-input-file | filecheck %s
// RUN: fxc-opt %s --split-input-file --print-op-generic | fxc-opt --split-input-file | filecheck %s

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read", tile.in_place}, %y: !tile.ptr<f32> {tile.access = "write", tile.in_place}, %n: index) attributes {grid = array<i64: 1>} {
  tile.return
}

/// Buffers of their own and in an arena, launches into others and in place, releases.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %a = plan.arena : !plan.arena<192, "cpu">
// CHECK-NEXT:    %b = plan.alloc %a[128] : tensor<2x2xf32>
// CHECK-NEXT:    %c = plan.alloc : tensor<2x2xf32, #torch.meta<strides = [1, 2]>>
// CHECK-NEXT:    plan.launch @k(%x, %n) outs(%b) : (tensor<4xf32>, !torch.int) outs(tensor<2x2xf32>)
// CHECK-NEXT:    plan.launch @k(%b, %n) outs(%b) : (tensor<2x2xf32>, !torch.int) outs(tensor<2x2xf32>)
// CHECK-NEXT:    %e = plan.record {stream = 0 : i64} : !plan.event
// CHECK-NEXT:    plan.wait %e {stream = 1 : i64}
// CHECK-NEXT:    plan.launch @k(%b, %n) outs(%c) {plan.stream = 1 : i64} : (tensor<2x2xf32>, !torch.int) outs(tensor<2x2xf32, #torch.meta<strides = [1, 2]>>)
// CHECK-NEXT:    %f = plan.record {stream = 1 : i64} : !plan.event
// CHECK-NEXT:    plan.wait %f {stream = 0 : i64}
// CHECK-NEXT:    %v = torch.aten.view.default(%b, [4]) : (tensor<2x2xf32>) -> tensor<4xf32>
// CHECK-NEXT:    plan.free %b : tensor<2x2xf32>
// CHECK-NEXT:    %{{.*}} = torch.aten.add.out(%v, %x, out = %x) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:    plan.free %v, %a : tensor<4xf32>, !plan.arena<192, "cpu">
func.func @main(%x: tensor<4xf32>, %n: !torch.int) -> tensor<2x2xf32, #torch.meta<strides = [1, 2]>> {
  %a = plan.arena : !plan.arena<192, "cpu">
  %b = plan.alloc %a[128] : tensor<2x2xf32>
  %c = plan.alloc : tensor<2x2xf32, #torch.meta<strides = [1, 2]>>
  plan.launch @k(%x, %n) outs(%b) : (tensor<4xf32>, !torch.int) outs(tensor<2x2xf32>)
  plan.launch @k(%b, %n) outs(%b) : (tensor<2x2xf32>, !torch.int) outs(tensor<2x2xf32>)
  %e = plan.record {stream = 0} : !plan.event
  plan.wait %e {stream = 1}
  plan.launch @k(%b, %n) outs(%c) {plan.stream = 1} : (tensor<2x2xf32>, !torch.int) outs(tensor<2x2xf32, #torch.meta<strides = [1, 2]>>)
  %f = plan.record {stream = 1} : !plan.event
  plan.wait %f {stream = 0}
  %v = torch.aten.view.default(%b, [4]) : (tensor<2x2xf32>) -> tensor<4xf32>
  plan.free %b : tensor<2x2xf32>
  %0 = torch.aten.add.out(%v, %x, out = %x) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  plan.free %v, %a : tensor<4xf32>, !plan.arena<192, "cpu">
  fx.output(%c) : (tensor<2x2xf32, #torch.meta<strides = [1, 2]>>) -> ()
}

// -----

/// Bytes that were released are used again, and buffers without elements are anywhere.
// CHECK-LABEL: func.func @again
// CHECK:         plan.alloc %a[0] : tensor<16xf32>
// CHECK:         plan.alloc %a[64] : tensor<0x5xf32>
// CHECK:         plan.alloc %a[64] : tensor<f64>
// CHECK:         plan.alloc %a[0] : tensor<64xi1>
func.func @again() {
  %a = plan.arena : !plan.arena<128, "cpu">
  %b = plan.alloc %a[0] : tensor<16xf32>
  %e = plan.alloc %a[64] : tensor<0x5xf32>
  %s = plan.alloc %a[64] : tensor<f64>
  plan.free %b : tensor<16xf32>
  %c = plan.alloc %a[0] : tensor<64xi1>
  fx.output() : () -> ()
}

// -----

/// Two devices: an input that is brought, streams and events.
// CHECK-LABEL: func.func @streams
// CHECK-NEXT:    %y = plan.bring %x : tensor<4xf32> to tensor<4xf32, #torch.meta<device = "cuda:0">>
// CHECK-NEXT:    %e = plan.record {stream = 1 : i64} : !plan.event
// CHECK-NEXT:    plan.wait %e {stream = 0 : i64}
func.func @streams(%x: tensor<4xf32>) {
  %y = plan.bring %x : tensor<4xf32> to tensor<4xf32, #torch.meta<device = "cuda:0">>
  %e = plan.record {stream = 1} : !plan.event
  plan.wait %e {stream = 0}
  fx.output(%y) : (tensor<4xf32, #torch.meta<device = "cuda:0">>) -> ()
}

// -----

/// An arena that the caller gives, with another inside for a function that is called, and a view without a copy.
// CHECK-LABEL: func.func private @callee(%arena: !plan.arena<64, "cpu">)
// CHECK-NEXT:    %b = plan.alloc %arena[0] : tensor<2x2xf32>
// CHECK-NEXT:    %v = plan.view %b : tensor<2x2xf32> to tensor<4x1xf32>
func.func private @callee(%arena: !plan.arena<64, "cpu">) {
  %b = plan.alloc %arena[0] : tensor<2x2xf32>
  %v = plan.view %b : tensor<2x2xf32> to tensor<4x1xf32>
  plan.free %v, %b : tensor<4x1xf32>, tensor<2x2xf32>
  func.return
}
// CHECK-LABEL: func.func @caller
// CHECK-NEXT:    %a = plan.arena : !plan.arena<128, "cpu">
// CHECK-NEXT:    %p = plan.alloc %a[64] : !plan.arena<64, "cpu">
func.func @caller() {
  %a = plan.arena : !plan.arena<128, "cpu">
  %p = plan.alloc %a[64] : !plan.arena<64, "cpu">
  func.call @callee(%p) : (!plan.arena<64, "cpu">) -> ()
  plan.free %p : !plan.arena<64, "cpu">
  func.return
}
