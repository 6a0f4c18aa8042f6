// RUN: fxc-opt %s --convert-dist-to-torch | filecheck %s
// RUN: fxc-opt %s -p convert-dist-to-torch,convert-torch-to-dist | filecheck %s --check-prefix=AGAIN
// RUN: fxc-opt %s -p convert-dist-to-torch | fxc translate - --to=fx | filecheck %s --check-prefix=FX
// RUN: fxc translate %s --to=fx | filecheck %s --check-prefix=FX

/// Each collective is the call with the name of the group, those with several operands the coalesced one. Export makes the
/// same calls of operations of dist.
// CHECK:         func.func @main
// CHECK-NEXT:    %r = torch._c10d_functional.all_reduce.default(%x, "sum", "7") {note} :
// CHECK-NEXT:    %y = torch._c10d_functional.wait_tensor.default(%r)
// CHECK-NEXT:    %a, %b = torch._c10d_functional.all_gather_into_tensor_coalesced.default([%x, %h], 2, "7")
// CHECK:         %s = torch._c10d_functional.reduce_scatter_tensor.default(%x, "avg", 2, "7")
// CHECK:         %t = torch._c10d_functional.all_to_all_single.default(%x, [0, 2], [1, 3], "7")
// CHECK:         %c = torch._c10d_functional.broadcast.default(%x, 1, "7")
// AGAIN:         %r = dist.all_reduce "sum" over @dp (%x) {note}
// AGAIN:         %a, %b = dist.all_gather over @dp (%x, %h)
// AGAIN:         %s = dist.reduce_scatter "avg" over @dp (%x)
// AGAIN:         %t = dist.all_to_all [1, 3] to [0, 2] over @dp (%x)
// AGAIN:         %c = dist.broadcast 1 over @dp (%x)
// FX:            r: "f32[4]" = torch.ops._c10d_functional.all_reduce.default(x, 'sum', '7')
// FX-NEXT:       y: "f32[4]" = torch.ops._c10d_functional.wait_tensor.default(r)
// FX-NEXT:       {{.*}} = torch.ops._c10d_functional.all_gather_into_tensor_coalesced.default([x, h], 2, '7')
// FX:            torch.ops._c10d_functional.all_to_all_single.default(x, [0, 2], [1, 3], '7')
dist.mesh @mesh "cpu" (dp = 2)
dist.group @dp "7" on @mesh(dp)
func.func @main(%x: tensor<4xf32>, %h: tensor<6xf32>) {
  %r = dist.all_reduce "sum" over @dp (%x) {note} : (tensor<4xf32>) -> tensor<4xf32>
  %y = dist.wait %r : tensor<4xf32>
  %a, %b = dist.all_gather over @dp (%x, %h) : (tensor<4xf32>, tensor<6xf32>) -> (tensor<8xf32>, tensor<12xf32>)
  %u = dist.wait %a : tensor<8xf32>
  %v = dist.wait %b : tensor<12xf32>
  %s = dist.reduce_scatter "avg" over @dp (%x) : (tensor<4xf32>) -> tensor<2xf32>
  %sw = dist.wait %s : tensor<2xf32>
  %t = dist.all_to_all [1, 3] to [0, 2] over @dp (%x) : (tensor<4xf32>) -> tensor<2xf32>
  %tw = dist.wait %t : tensor<2xf32>
  %c = dist.broadcast 1 over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %cw = dist.wait %c : tensor<4xf32>
  fx.output((%y, %u, %v, %sw, %tw, %cw)) : (tensor<4xf32>, tensor<8xf32>, tensor<12xf32>, tensor<2xf32>, tensor<2xf32>, tensor<4xf32>) -> ()
}
