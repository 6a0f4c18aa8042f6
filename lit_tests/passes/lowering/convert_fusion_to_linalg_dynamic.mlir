// RUN: fxc-opt %s --pass-pipeline=convert-fusion-to-linalg --split-input-file | filecheck %s

/// A first size that is not known is one of the tensors that are made, and a loop that stands alone.
// CHECK-LABEL: func.func @elementwise
// CHECK:         %[[DIM:.*]] = tensor.dim %x, %{{.*}} : tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>
// CHECK:         tensor.empty(%[[DIM]]) : tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
func.func @elementwise(%x: tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>, %y: tensor<3xf32>) {
  %s = fusion.group ({
    %a = torch.aten.mul.Tensor(%x, %y) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>, tensor<3xf32>) -> tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>
    %b = torch.aten.neg.default(%a) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>) -> tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>
    fusion.yield %b : tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>
  }) -> tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>
  fx.output(%s) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>) -> ()
}

// -----

/// What is reduced is static; a size given as a number stands for the same.
// CHECK-LABEL: func.func @reduction
// CHECK:         iterator_types = ["parallel", "reduction"]
// CHECK:         arith.divf
func.func @reduction(%x: tensor<?x8xf32, #torch.meta<sizes = ["s0", 8]>>, %n: !torch.int<"s0">) {
  %s = fusion.group ({
    %a = torch.aten.mean.dim(%x, [1]) : (tensor<?x8xf32, #torch.meta<sizes = ["s0", 8]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
    %b = torch.prims.broadcast_in_dim.default(%a, [%n, 1], [0]) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, !torch.int<"s0">) -> tensor<?x1xf32, #torch.meta<sizes = ["s0", 1]>>
    %c = torch.aten.sub.Tensor(%x, %b) : (tensor<?x8xf32, #torch.meta<sizes = ["s0", 8]>>, tensor<?x1xf32, #torch.meta<sizes = ["s0", 1]>>) -> tensor<?x8xf32, #torch.meta<sizes = ["s0", 8]>>
    fusion.yield %c : tensor<?x8xf32, #torch.meta<sizes = ["s0", 8]>>
  }) -> tensor<?x8xf32, #torch.meta<sizes = ["s0", 8]>>
  fx.output(%s) : (tensor<?x8xf32, #torch.meta<sizes = ["s0", 8]>>) -> ()
}

// -----

/// Strides that depend on a size.
// CHECK-LABEL: func.func @inner_size
// CHECK-NOT:     linalg
func.func @inner_size(%x: tensor<4x?xf32, #torch.meta<sizes = [4, "s0"]>>) {
  %s = fusion.group ({
    %a = torch.aten.neg.default(%x) : (tensor<4x?xf32, #torch.meta<sizes = [4, "s0"]>>) -> tensor<4x?xf32, #torch.meta<sizes = [4, "s0"]>>
    fusion.yield %a : tensor<4x?xf32, #torch.meta<sizes = [4, "s0"]>>
  }) -> tensor<4x?xf32, #torch.meta<sizes = [4, "s0"]>>
  fx.output(%s) : (tensor<4x?xf32, #torch.meta<sizes = [4, "s0"]>>) -> ()
}

// -----

/// A reduction of a size that is not known.
// CHECK-LABEL: func.func @reduced_size
// CHECK-NOT:     linalg
func.func @reduced_size(%x: tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) {
  %s = fusion.group ({
    %a = torch.aten.sum.dim_IntList(%x, [0]) : (tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) -> tensor<4xf32>
    fusion.yield %a : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output(%s) : (tensor<4xf32>) -> ()
}

// -----

/// A number that depends on the size; a place that does; one place in a dimension that may have no element.
// CHECK-LABEL: func.func @number
// CHECK-NOT:     linalg
func.func @number(%x: tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) {
  %s = fusion.group ({
    %a = torch.aten.mean.dim(%x, [0]) : (tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) -> tensor<4xf32>
    fusion.yield %a : tensor<4xf32>
  }) -> tensor<4xf32>
  %t = fusion.group ({
    %b = torch.aten.flip.default(%x, [0]) : (tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) -> tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>
    %c = torch.aten.neg.default(%b) : (tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) -> tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>
    fusion.yield %c : tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>
  }) -> tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>
  %u = fusion.group ({
    %d = torch.aten.select.int(%x, 0, 0) : (tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) -> tensor<4xf32>
    %e = torch.aten.neg.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %e : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output((%s, %t, %u)) : (tensor<4xf32>, tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>, tensor<4xf32>) -> ()
}

// -----

/// A concatenation, and two sizes that are not known in one tensor.
// CHECK-LABEL: func.func @pieces
// CHECK-NOT:     linalg
func.func @pieces(%x: tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>, %y: tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) {
  %s = fusion.group ({
    %a = torch.aten.neg.default(%x) : (tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) -> tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>
    %b = torch.aten.cat.default([%a, %x], 1) : (tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>, tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) -> tensor<?x8xf32, #torch.meta<sizes = ["s0", 8]>>
    fusion.yield %b : tensor<?x8xf32, #torch.meta<sizes = ["s0", 8]>>
  }) -> tensor<?x8xf32, #torch.meta<sizes = ["s0", 8]>>
  %t = fusion.group ({
    %c = torch.aten.neg.default(%y) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
    fusion.yield %c : tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
  }) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
  fx.output((%s, %t)) : (tensor<?x8xf32, #torch.meta<sizes = ["s0", 8]>>, tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> ()
}
