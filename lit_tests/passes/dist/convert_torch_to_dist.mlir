// RUN: fxc-opt %s --split-input-file --convert-torch-to-dist | filecheck %s
// RUN: fxc-opt %s --split-input-file -p convert-torch-to-dist,convert-torch-to-dist | filecheck %s

/// Each collective that has an operation; attributes and names stay.
// CHECK-LABEL: func.func @all
// CHECK-NEXT:    %r = dist.all_reduce "sum" over @dp (%x) {note} :
// CHECK-NEXT:    %y = dist.wait %r
// CHECK-NEXT:    %z = dist.wait %y
// CHECK-NEXT:    %a, %b = dist.all_gather over @dp (%x, %h) : (tensor<4xf32>, tensor<6xf32>) -> (tensor<8xf32>, tensor<12xf32>)
// CHECK-NEXT:    %u = dist.wait %a
// CHECK-NEXT:    %v = dist.wait %b
// CHECK-NEXT:    %s = dist.reduce_scatter "avg" over @dp (%x)
// CHECK-NEXT:    %sw = dist.wait %s
// CHECK-NEXT:    %t = dist.all_to_all [1, 3] to [0, 2] over @dp (%x)
// CHECK-NEXT:    %tw = dist.wait %t
// CHECK-NEXT:    %c = dist.broadcast 1 over @dp (%x)
// CHECK-NEXT:    %cw = dist.wait %c
dist.mesh @mesh "cpu" (dp = 2)
dist.group @dp "0" on @mesh(dp)
func.func @all(%x: tensor<4xf32>, %h: tensor<6xf32>) {
  %r = torch._c10d_functional.all_reduce.default(%x, "sum", "0") {note} : (tensor<4xf32>) -> tensor<4xf32>
  %y = torch._c10d_functional.wait_tensor.default(%r) : (tensor<4xf32>) -> tensor<4xf32>
  %z = torch._c10d_functional.wait_tensor.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %a, %b = torch._c10d_functional.all_gather_into_tensor_coalesced.default([%x, %h], 2, "0") : (tensor<4xf32>, tensor<6xf32>) -> (tensor<8xf32>, tensor<12xf32>)
  %u = torch._c10d_functional.wait_tensor.default(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %v = torch._c10d_functional.wait_tensor.default(%b) : (tensor<12xf32>) -> tensor<12xf32>
  %s = torch._c10d_functional.reduce_scatter_tensor.default(%x, "avg", 2, "0") : (tensor<4xf32>) -> tensor<2xf32>
  %sw = torch._c10d_functional.wait_tensor.default(%s) : (tensor<2xf32>) -> tensor<2xf32>
  %t = torch._c10d_functional.all_to_all_single.default(%x, [0, 2], [1, 3], "0") : (tensor<4xf32>) -> tensor<2xf32>
  %tw = torch._c10d_functional.wait_tensor.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
  %c = torch._c10d_functional.broadcast.default(%x, 1, "0") : (tensor<4xf32>) -> tensor<4xf32>
  %cw = torch._c10d_functional.wait_tensor.default(%c) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%z, %u, %v, %sw, %tw, %cw) : (tensor<4xf32>, tensor<8xf32>, tensor<12xf32>, tensor<2xf32>, tensor<2xf32>, tensor<4xf32>) -> ()
}

// -----

/// A group that no dist.group states, a result that is read without a wait, a size that is computed, and a write in place.
// CHECK-LABEL: func.func @guards
// CHECK-NEXT:    torch._c10d_functional.all_reduce.default
// CHECK-NEXT:    torch._c10d_functional.all_reduce.default
// CHECK-NEXT:    torch._c10d_functional.all_to_all_single.default
// CHECK-NEXT:    torch._c10d_functional.all_reduce_.default
// CHECK-NOT:     dist.
dist.group @dp "0" ranks [0, 1]
func.func @guards(%x: tensor<4xf32>, %n: !torch.int) {
  %r = torch._c10d_functional.all_reduce.default(%x, "sum", "5") : (tensor<4xf32>) -> tensor<4xf32>
  %s = torch._c10d_functional.all_reduce.default(%x, "sum", "0") : (tensor<4xf32>) -> tensor<4xf32>
  %t = torch._c10d_functional.all_to_all_single.default(%x, [%n, 2], [1, 3], "0") : (tensor<4xf32>, !torch.int) -> tensor<?xf32>
  %u = torch._c10d_functional.all_reduce_.default(%x, "sum", "0") : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%s) : (tensor<4xf32>) -> ()
}
