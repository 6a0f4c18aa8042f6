// RUN: fxc-opt %s --split-input-file --annotate-costs | filecheck %s
// RUN: fxc-opt %s --split-input-file --annotate-costs --annotate-costs | filecheck %s
// RUN: fxc-opt %s --split-input-file --set-target="to=cuda:sm_90" --annotate-costs | filecheck %s --check-prefix=GPU

/// A product of float32 matrices: 2*128*64*32 operations; the function has the sum.
// CHECK-LABEL: func.func @product
// CHECK-SAME:    attributes {cost.flops = 528384 : i64, cost.bytes = 90112 : i64, cost.time_us = 2.219900e+01 : f64}
// CHECK:         %0 = torch.aten.mm.default(%x, %w) {cost.flops = 524288 : i64, cost.bytes = 57344 : i64, cost.time_us = 1.492300e+01 : f64}
// CHECK-NEXT:    %1 = torch.aten.relu.default(%0) {cost.flops = 4096 : i64, cost.bytes = 32768 : i64, cost.time_us = 7.277000e+00 : f64}
// GPU-LABEL:   func.func @product
// GPU:           %0 = torch.aten.mm.default(%x, %w) {cost.flops = 524288 : i64, cost.bytes = 57344 : i64, cost.time_us = 5.017000e+00 : f64}
func.func @product(%x: tensor<128x64xf32>, %w: tensor<64x32xf32>) -> tensor<128x32xf32> {
  %0 = torch.aten.mm.default(%x, %w) : (tensor<128x64xf32>, tensor<64x32xf32>) -> tensor<128x32xf32>
  %1 = torch.aten.relu.default(%0) : (tensor<128x32xf32>) -> tensor<128x32xf32>
  func.return %1 : tensor<128x32xf32>
}

// -----

/// Views and size queries cost nothing; an expanded tensor is read once.
// CHECK-LABEL: func.func @views
// CHECK:         torch.aten.permute.default({{.*}} {cost.flops = 0 : i64, cost.bytes = 0 : i64, cost.time_us = 0.000000e+00 : f64}
// CHECK-NEXT:    torch.aten.expand.default({{.*}} {cost.flops = 0 : i64, cost.bytes = 0 : i64
// CHECK-NEXT:    torch.aten.sym_size.int({{.*}} {cost.flops = 0 : i64, cost.bytes = 0 : i64
// CHECK-NEXT:    torch.aten.add.Tensor({{.*}} {cost.flops = 32 : i64, cost.bytes = 272 : i64
func.func @views(%x: tensor<4x8xf32>, %b: tensor<4x1xf32>) -> tensor<8x4xf32> {
  %p = torch.aten.permute.default(%x, [1, 0]) : (tensor<4x8xf32>) -> tensor<8x4xf32, #torch.meta<strides = [1, 8]>>
  %e = torch.aten.expand.default(%b, [4, 8]) : (tensor<4x1xf32>) -> tensor<4x8xf32, #torch.meta<strides = [1, 0]>>
  %n = torch.aten.sym_size.int(%x, 0) : (tensor<4x8xf32>) -> !torch.int
  %s = torch.aten.add.Tensor(%x, %e) : (tensor<4x8xf32>, tensor<4x8xf32, #torch.meta<strides = [1, 0]>>) -> tensor<4x8xf32>
  %t = torch.aten.permute.default(%s, [1, 0]) : (tensor<4x8xf32>) -> tensor<8x4xf32, #torch.meta<strides = [1, 8]>>
  %c = torch.aten.clone.default(%t) : (tensor<8x4xf32, #torch.meta<strides = [1, 8]>>) -> tensor<8x4xf32>
  func.return %c : tensor<8x4xf32>
}

// -----

/// Copies, concatenations and constants compute nothing; a constant reads nothing, a lookup what it returns.
// CHECK-LABEL: func.func @moves
// CHECK:         torch.aten.clone.default({{.*}} {cost.flops = 0 : i64, cost.bytes = 32 : i64
// CHECK-NEXT:    torch.aten.cat.default({{.*}} {cost.flops = 0 : i64, cost.bytes = 64 : i64
// CHECK-NEXT:    torch.aten.full_like.default({{.*}} {cost.flops = 0 : i64, cost.bytes = 16 : i64
// CHECK-NEXT:    torch.aten.embedding.default({{.*}} {cost.flops = 0 : i64, cost.bytes = 144 : i64
func.func @moves(%x: tensor<4xf32>, %w: tensor<1000x8xf32>, %i: tensor<2xi64>) -> () {
  %c = torch.aten.clone.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %j = torch.aten.cat.default([%x, %c]) : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %f = torch.aten.full_like.default(%x, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.embedding.default(%w, %i) : (tensor<1000x8xf32>, tensor<2xi64>) -> tensor<2x8xf32>
  func.return
}

// -----

/// Symbolic sizes have their hints, also in expressions; a size without hints is 1021.
// CHECK-LABEL: builtin.module
// CHECK:       func.func @symbols
// CHECK:         torch.aten.exp.default({{.*}} {cost.flops = 640 : i64, cost.bytes = 320 : i64
// CHECK-NEXT:    torch.aten.neg.default({{.*}} {cost.flops = 4 : i64, cost.bytes = 32 : i64
// CHECK-NEXT:    torch.aten.neg.default({{.*}} {cost.flops = 1021 : i64, cost.bytes = 8168 : i64
builtin.module attributes {torch.symbols = {s0 = {hint = 10, min = 2, max = 100}}} {
  func.func @symbols(%x: tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>, %y: tensor<?xf32, #torch.meta<sizes = ["(s0 - 1)//2"]>>, %z: tensor<?xf32, #torch.meta<sizes = ["u0"]>>) {
    %e = torch.aten.exp.default(%x) : (tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) -> tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>
    %n = torch.aten.neg.default(%y) : (tensor<?xf32, #torch.meta<sizes = ["(s0 - 1)//2"]>>) -> tensor<?xf32, #torch.meta<sizes = ["(s0 - 1)//2"]>>
    %m = torch.aten.neg.default(%z) : (tensor<?xf32, #torch.meta<sizes = ["u0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["u0"]>>
    func.return
  }
}

// -----

/// A group is one kernel: it reads and writes only what passes its border. A call costs what the function does.
// CHECK-LABEL: func.func @groups
// CHECK-SAME:    cost.flops = 20 : i64, cost.bytes = 64 : i64
// CHECK:         fusion.group
// CHECK:           torch.aten.neg.default({{.*}} {cost.flops = 4 : i64, cost.bytes = 32 : i64
// CHECK:         }) {cost.flops = 16 : i64, cost.bytes = 32 : i64
// CHECK:         func.call @f(%g) {cost.flops = 4 : i64, cost.bytes = 32 : i64
func.func @groups(%x: tensor<4xf32>) -> tensor<4xf32> {
  %g = fusion.group ({
    %n = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %m = torch.aten.mul.Tensor(%n, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %a = torch.aten.add.Tensor(%m, %n) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %s = torch.aten.sub.Tensor(%a, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %s : tensor<4xf32>
  }) -> tensor<4xf32>
  %c = func.call @f(%g) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %c : tensor<4xf32>
}
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %n = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %n : tensor<4xf32>
}
