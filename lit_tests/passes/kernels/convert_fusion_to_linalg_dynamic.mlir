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

/// Any size of a tensor; two of them.
// CHECK-LABEL: func.func @inner_sizes
// CHECK:         %[[SECOND:.*]] = tensor.dim %x, %{{.*}}
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>]
func.func @inner_sizes(%x: tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) {
  %s = fusion.group ({
    %a = torch.aten.neg.default(%x) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
    fusion.yield %a : tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
  }) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
  fx.output(%s) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> ()
}

// -----

/// A number that depends on the size of what is reduced.
// CHECK-LABEL: func.func @mean
// CHECK:         %[[SIZE:.*]] = tensor.dim %x, %{{.*}}
// CHECK:         iterator_types = ["reduction", "parallel"]
// CHECK:         %[[NUMBER:.*]] = arith.index_cast %[[SIZE]] : index to i64
// CHECK-NEXT:    %[[COUNT:.*]] = arith.sitofp %[[NUMBER]] : i64 to f32
// CHECK-NEXT:    arith.divf %{{.*}}, %[[COUNT]]
func.func @mean(%x: tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) {
  %s = fusion.group ({
    %a = torch.aten.mean.dim(%x, [0]) : (tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) -> tensor<4xf32>
    fusion.yield %a : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output(%s) : (tensor<4xf32>) -> ()
}

// -----

/// A place that depends on a size is computed, of a size that a number says.
// CHECK-LABEL: func.func @places
// CHECK:         %[[COUNT:.*]] = builtin.unrealized_conversion_cast %n : !torch.int<"s1"> to index
// CHECK:         affine.apply affine_map<(d0, d1)[s0] -> (((d0 * s0) + d1))> (%{{.*}}, %{{.*}})[%[[COUNT]]]
// CHECK:         tensor.extract %x
func.func @places(%x: tensor<?xf32, #torch.meta<sizes = ["s0*s1"]>>, %m: !torch.int<"s0">, %n: !torch.int<"s1">) {
  %s = fusion.group ({
    %b = torch.aten.view.default(%x, [%m, %n]) : (tensor<?xf32, #torch.meta<sizes = ["s0*s1"]>>, !torch.int<"s0">, !torch.int<"s1">) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
    %c = torch.aten.neg.default(%b) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
    fusion.yield %c : tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
  }) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
  fx.output(%s) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> ()
}

// -----

/// Pieces of sizes that are not known.
// CHECK-LABEL: func.func @pieces
// CHECK:         tensor.concat
// CHECK-SAME:    -> tensor<?xf32, #torch.meta<sizes = ["s0 + s1"]>>
func.func @pieces(%x: tensor<?xf32, #torch.meta<sizes = ["s0"]>>, %y: tensor<?xf32, #torch.meta<sizes = ["s1"]>>) {
  %s = fusion.group ({
    %a = torch.aten.neg.default(%x) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
    %b = torch.aten.cat.default([%a, %y]) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, tensor<?xf32, #torch.meta<sizes = ["s1"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0 + s1"]>>
    fusion.yield %b : tensor<?xf32, #torch.meta<sizes = ["s0 + s1"]>>
  }) -> tensor<?xf32, #torch.meta<sizes = ["s0 + s1"]>>
  fx.output(%s) : (tensor<?xf32, #torch.meta<sizes = ["s0 + s1"]>>) -> ()
}

// -----

/// One place in a dimension that may have no element; a size without a name.
// CHECK-LABEL: func.func @outside
// CHECK-NOT:     linalg
func.func @outside(%x: tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>, %y: tensor<?xf32>) {
  %s = fusion.group ({
    %a = torch.aten.select.int(%x, 0, 0) : (tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) -> tensor<4xf32>
    %b = torch.aten.neg.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %b : tensor<4xf32>
  }) -> tensor<4xf32>
  %u = fusion.group ({
    %e = torch.aten.neg.default(%y) : (tensor<?xf32>) -> tensor<?xf32>
    fusion.yield %e : tensor<?xf32>
  }) -> tensor<?xf32>
  fx.output((%s, %u)) : (tensor<4xf32>, tensor<?xf32>) -> ()
}

// -----

/// Ten places, of which the module says that they are there: read without a condition.
// CHECK-LABEL: func.func @inside
// CHECK-NOT:     scf.if
// CHECK:         tensor.extract %x
builtin.module attributes {torch.symbols = {s0 = {min = 10 : i64}}} {
  func.func @inside(%x: tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) {
    %t = fusion.group ({
      %c = torch.aten.slice.Tensor(%x, 0, 0, 10) : (tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) -> tensor<10x4xf32>
      %d = torch.aten.neg.default(%c) : (tensor<10x4xf32>) -> tensor<10x4xf32>
      fusion.yield %d : tensor<10x4xf32>
    }) -> tensor<10x4xf32>
    fx.output(%t) : (tensor<10x4xf32>) -> ()
  }
}

// -----

/// A maximum of what may have no elements, which PyTorch refuses.
// CHECK-LABEL: func.func @maximum_of_nothing
// CHECK:         torch.aten.max.default
func.func @maximum_of_nothing(%x: tensor<?x8xf32, #torch.meta<sizes = ["u0", 8]>>) {
  %s = fusion.group ({
    %a = torch.aten.neg.default(%x) : (tensor<?x8xf32, #torch.meta<sizes = ["u0", 8]>>) -> tensor<?x8xf32, #torch.meta<sizes = ["u0", 8]>>
    %b = torch.aten.max.default(%a) : (tensor<?x8xf32, #torch.meta<sizes = ["u0", 8]>>) -> tensor<f32>
    fusion.yield %b : tensor<f32>
  }) -> tensor<f32>
  fx.output(%s) : (tensor<f32>) -> ()
}

// -----

/// One of what has some.
module attributes {torch.symbols = {u0 = {min = 1}}} {
  // CHECK-LABEL: func.func @maximum_of_some
  // CHECK-NOT:     torch.aten.max.default
  // CHECK:         iterator_types = ["reduction", "reduction"]
  func.func @maximum_of_some(%x: tensor<?x8xf32, #torch.meta<sizes = ["u0", 8]>>) {
    %s = fusion.group ({
      %a = torch.aten.neg.default(%x) : (tensor<?x8xf32, #torch.meta<sizes = ["u0", 8]>>) -> tensor<?x8xf32, #torch.meta<sizes = ["u0", 8]>>
      %b = torch.aten.max.default(%a) : (tensor<?x8xf32, #torch.meta<sizes = ["u0", 8]>>) -> tensor<f32>
      fusion.yield %b : tensor<f32>
    }) -> tensor<f32>
    fx.output(%s) : (tensor<f32>) -> ()
  }
}
