// RUN: fxc-opt %s --split-input-file -p join-products{gain=1.0e30} | filecheck %s
// RUN: fxc-opt %s --split-input-file -p join-products{gain=0.0} | filecheck %s --check-prefix=NEVER

// NEVER-NOT: torch.aten.cat

/// Query, key and value: one product, and views that split it into heads. What reads these reads them as they lie.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    [[W:%[0-9]+]] = torch.aten.cat.default([%wq, %wk])
// CHECK-NEXT:    [[B:%[0-9]+]] = torch.aten.cat.default([%bq, %bk])
// CHECK-NEXT:    [[Y:%[0-9]+]] = torch.aten.linear.default(%x, [[W]], [[B]])
// CHECK-NEXT:    %q = torch.aten.slice.Tensor([[Y]], 2, 0, 4) : (tensor<2x3x8xf32>) -> tensor<2x3x4xf32, #torch.meta<strides = [24, 8, 1]>>
// CHECK-NEXT:    %k = torch.aten.slice.Tensor([[Y]], 2, 4, 8)
// CHECK-NEXT:    %qs = torch.aten.unflatten.int(%q, -1, [2, -1])
// CHECK-SAME:    -> tensor<2x3x2x2xf32, #torch.meta<strides = [24, 8, 2, 1]>>
// CHECK-NEXT:    %qt = torch.aten.transpose.int(%qs, 1, 2)
// CHECK-SAME:    -> tensor<2x2x3x2xf32, #torch.meta<strides = [24, 2, 8, 1]>>
// CHECK-NEXT:    %ks = torch.aten.unflatten.int(%k, -1, [2, -1])
// CHECK-NEXT:    %kt = torch.aten.permute.default(%ks, [0, 2, 3, 1])
// CHECK-NEXT:    %s = torch.aten.matmul.default(%qt, %kt)
// CHECK-SAME:    -> tensor<2x2x3x3xf32>
// CHECK-NEXT:    fx.output(%s)
func.func @main(%x: tensor<2x3x4xf32> {fx.kind = "input"}, %wq: tensor<4x4xf32> {fx.kind = "parameter", fx.name = "wq"}, %bq: tensor<4xf32> {fx.kind = "parameter", fx.name = "bq"}, %wk: tensor<4x4xf32> {fx.kind = "parameter", fx.name = "wk"}, %bk: tensor<4xf32> {fx.kind = "parameter", fx.name = "bk"}) {
  %q = torch.aten.linear.default(%x, %wq, %bq) : (tensor<2x3x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  %qs = torch.aten.unflatten.int(%q, -1, [2, -1]) : (tensor<2x3x4xf32>) -> tensor<2x3x2x2xf32>
  %qt = torch.aten.transpose.int(%qs, 1, 2) : (tensor<2x3x2x2xf32>) -> tensor<2x2x3x2xf32, #torch.meta<strides = [12, 2, 4, 1]>>
  %k = torch.aten.linear.default(%x, %wk, %bk) : (tensor<2x3x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  %ks = torch.aten.unflatten.int(%k, -1, [2, -1]) : (tensor<2x3x4xf32>) -> tensor<2x3x2x2xf32>
  %kt = torch.aten.permute.default(%ks, [0, 2, 3, 1]) : (tensor<2x3x2x2xf32>) -> tensor<2x2x2x3xf32, #torch.meta<strides = [12, 2, 1, 4]>>
  %s = torch.aten.matmul.default(%qt, %kt) : (tensor<2x2x3x2xf32, #torch.meta<strides = [12, 2, 4, 1]>>, tensor<2x2x2x3xf32, #torch.meta<strides = [12, 2, 1, 4]>>) -> tensor<2x2x3x3xf32>
  fx.output(%s) : (tensor<2x2x3x3xf32>) -> ()
}

// -----

/// In the forms that decompositions leave.
// CHECK-LABEL: func.func @main
// CHECK:         [[U:%[0-9]+]] = torch.aten.t.default(%u)
// CHECK-NEXT:    [[W:%[0-9]+]] = torch.aten.cat.default([%w, [[U]]])
// CHECK-NEXT:    [[Y:%[0-9]+]] = torch.aten.linear.default(%x, [[W]])
// CHECK-NEXT:    %p = torch.aten.slice.Tensor([[Y]], 1, 0, 3)
// CHECK-NEXT:    %q = torch.aten.slice.Tensor([[Y]], 1, 3, 8)
// CHECK-NEXT:    %r = torch.aten.relu.default(%p)
// CHECK-NEXT:    %n = torch.aten.neg.default(%q)
func.func @main(%x: tensor<2x4xf32> {fx.kind = "input"}, %w: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w"}, %u: tensor<4x5xf32> {fx.kind = "parameter", fx.name = "u"}) {
  %t = torch.aten.t.default(%w) : (tensor<3x4xf32>) -> tensor<4x3xf32, #torch.meta<strides = [1, 4]>>
  %p = torch.aten.mm.default(%x, %t) : (tensor<2x4xf32>, tensor<4x3xf32, #torch.meta<strides = [1, 4]>>) -> tensor<2x3xf32>
  %r = torch.aten.relu.default(%p) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %q = torch.aten.mm.default(%x, %u) : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  %n = torch.aten.neg.default(%q) : (tensor<2x5xf32>) -> tensor<2x5xf32>
  fx.output((%r, %n)) : (tensor<2x3xf32>, tensor<2x5xf32>) -> ()
}

// -----

/// A weight that is computed between the products is computed before them.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %v = torch.aten.neg.default(%w)
// CHECK-NEXT:    torch.aten.cat.default([%w, %v])
func.func @main(%x: tensor<2x4xf32> {fx.kind = "input"}, %w: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w"}) {
  %p = torch.aten.linear.default(%x, %w) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %v = torch.aten.neg.default(%w) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %q = torch.aten.linear.default(%x, %v) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %r = torch.aten.mul.Tensor(%p, %q) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output(%r) : (tensor<2x3xf32>) -> ()
}

// -----

/// Copied is what is returned, by a view too; what another product reads; what cannot be viewed as it was; what would give a
/// result that lies otherwise.
// CHECK-LABEL: func.func @main
// CHECK:         torch.aten.linear.default(%x,
// CHECK-COUNT-5: torch.aten.clone.default({{%[0-9]+}}, memory_format = torch.contiguous_format)
// CHECK-NEXT:    torch.aten.slice.Tensor
// CHECK-NEXT:    %a2 = torch.aten.t.default(%a) : (tensor<2x3xf32>)
// CHECK-NOT:     torch.aten.clone
func.func @main(%x: tensor<2x4xf32> {fx.kind = "input"}, %w: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w"}, %m: tensor<3x3xf32> {fx.kind = "parameter", fx.name = "m"}) {
  %a = torch.aten.linear.default(%x, %w) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %b = torch.aten.linear.default(%x, %w) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %c = torch.aten.linear.default(%x, %w) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %d = torch.aten.linear.default(%x, %w) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %e = torch.aten.linear.default(%x, %w) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %f = torch.aten.linear.default(%x, %w) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %a2 = torch.aten.t.default(%a) : (tensor<2x3xf32>) -> tensor<3x2xf32, #torch.meta<strides = [1, 3]>>
  %b2 = torch.aten.linear.default(%b, %m) : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  %c2 = torch.aten.view.default(%c, [6]) : (tensor<2x3xf32>) -> tensor<6xf32>
  %c3 = torch.aten.neg.default(%c2) : (tensor<6xf32>) -> tensor<6xf32>
  %d2 = torch.aten.reshape.default(%d, [6]) : (tensor<2x3xf32>) -> tensor<6xf32>
  %d3 = torch.aten.neg.default(%d2) : (tensor<6xf32>) -> tensor<6xf32>
  %f2 = torch.aten.neg.default(%f) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output((%a2, %b2, %c3, %d3, %e, %f2)) : (tensor<3x2xf32, #torch.meta<strides = [1, 3]>>, tensor<2x3xf32>, tensor<6xf32>, tensor<6xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> ()
}

// -----

/// Slices of one row can be viewed as they were.
// CHECK-LABEL: func.func @main
// CHECK:         %p = torch.aten.slice.Tensor({{%[0-9]+}}, 1, 0, 3)
// CHECK-NEXT:    %q = torch.aten.slice.Tensor({{%[0-9]+}}, 1, 3, 6)
// CHECK-NEXT:    %v = torch.aten.view.default(%p, [3])
// CHECK-SAME:    -> tensor<3xf32>
func.func @main(%x: tensor<1x4xf32> {fx.kind = "input"}, %w: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w"}) {
  %p = torch.aten.linear.default(%x, %w) : (tensor<1x4xf32>, tensor<3x4xf32>) -> tensor<1x3xf32>
  %q = torch.aten.linear.default(%x, %w) : (tensor<1x4xf32>, tensor<3x4xf32>) -> tensor<1x3xf32>
  %v = torch.aten.view.default(%p, [3]) : (tensor<1x3xf32>) -> tensor<3xf32>
  %r = torch.aten.mul.Tensor(%v, %q) : (tensor<3xf32>, tensor<1x3xf32>) -> tensor<1x3xf32>
  fx.output(%r) : (tensor<1x3xf32>) -> ()
}

// -----

/// Not: products of other rows, of which one has a bias, with a weight that is an input or changes, of another dtype, of sizes
/// that are not known, scaled; and those between which another lies.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     torch.aten.cat
func.func @main(%x: tensor<2x4xf32> {fx.kind = "input"}, %y: tensor<2x4xf32> {fx.kind = "input"}, %i: tensor<3x4xf32> {fx.kind = "input"}, %c: tensor<3x4xf32> {fx.kind = "buffer", fx.name = "c"}, %w: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w"}, %b: tensor<3xf32> {fx.kind = "parameter", fx.name = "b"}, %z: tensor<2x4xf64> {fx.kind = "input"}, %d: tensor<3x4xf64> {fx.kind = "parameter", fx.name = "d"}, %s: tensor<?x4xf32> {fx.kind = "input"}) -> (tensor<3x4xf32> {fx.mutates = 3}, tensor<2x3xf32>) {
  %1 = torch.aten.linear.default(%x, %w) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %2 = torch.aten.linear.default(%y, %w) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %3 = torch.aten.linear.default(%x, %w) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %4 = torch.aten.linear.default(%x, %w, %b) : (tensor<2x4xf32>, tensor<3x4xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %5 = torch.aten.linear.default(%x, %i) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %6 = torch.aten.linear.default(%x, %w) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %7 = torch.aten.linear.default(%x, %c) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %8 = torch.aten.linear.default(%z, %d) : (tensor<2x4xf64>, tensor<3x4xf64>) -> tensor<2x3xf64>
  %9 = torch.aten.linear.default(%z, %d) : (tensor<2x4xf64>, tensor<3x4xf64>) -> tensor<2x3xf64>
  %10 = torch.aten.linear.default(%s, %w) : (tensor<?x4xf32>, tensor<3x4xf32>) -> tensor<?x3xf32>
  %11 = torch.aten.linear.default(%s, %w) : (tensor<?x4xf32>, tensor<3x4xf32>) -> tensor<?x3xf32>
  %t = torch.aten.t.default(%w) : (tensor<3x4xf32>) -> tensor<4x3xf32, #torch.meta<strides = [1, 4]>>
  %12 = torch.aten.addmm.default(%b, %x, %t, alpha = 2) : (tensor<3xf32>, tensor<2x4xf32>, tensor<4x3xf32, #torch.meta<strides = [1, 4]>>) -> tensor<2x3xf32>
  %13 = torch.aten.addmm.default(%b, %x, %t, alpha = 2) : (tensor<3xf32>, tensor<2x4xf32>, tensor<4x3xf32, #torch.meta<strides = [1, 4]>>) -> tensor<2x3xf32>
  %n = torch.aten.neg.default(%c) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  fx.output(%n, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13) : (tensor<3x4xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf64>, tensor<2x3xf64>, tensor<?x3xf32>, tensor<?x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> ()
}
