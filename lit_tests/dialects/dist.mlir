// RUN: fxc-opt %s | fxc-opt | filecheck %s
// RUN: fxc-opt %s --print-op-generic | fxc-opt | filecheck %s

// CHECK:      dist.mesh @mesh "cuda" (dp = 2, tp = 2)
// CHECK-NEXT: dist.mesh @ring "cpu" (sp = 2) ranks [3, 0] {note = "last and first"}
// CHECK-NEXT: dist.group @dp "1" on @mesh(dp)
// CHECK-NEXT: dist.group @all "0" on @mesh(dp, tp)
// CHECK-NEXT: dist.group @pair "7" ranks [0, 3] {note}
dist.mesh @mesh "cuda" (dp = 2, tp = 2) ranks [0, 1, 2, 3]
dist.mesh @ring "cpu" (sp = 2) ranks [3, 0] {note = "last and first"}
dist.group @dp "1" on @mesh(dp)
dist.group @all "0" on @mesh(dp, tp)
dist.group @pair "7" ranks [0, 3] {note}

// CHECK:      func.func @main(%x: tensor<4x3xf32> {dist.layout = #dist.layout<@mesh, [shard<0>, replicate]>}, %h: tensor<?x3xf32>) -> (tensor<4x3xf32> {dist.layout = #dist.layout<@mesh, [partial<"sum">, shard<1>]>}) {
func.func @main(%x: tensor<4x3xf32> {dist.layout = #dist.layout<@mesh, [shard<0>, replicate]>}, %h: tensor<?x3xf32>)
    -> (tensor<4x3xf32> {dist.layout = #dist.layout<@mesh, [partial<"sum">, shard<1>]>}) {
  // CHECK-NEXT: %r = dist.all_reduce "sum" over @dp (%x) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %r = dist.all_reduce "sum" over @dp (%x) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  // CHECK-NEXT: %y = dist.wait %r : tensor<4x3xf32>
  %y = dist.wait %r : tensor<4x3xf32>
  // CHECK-NEXT: %a, %b = dist.all_gather over @all (%x, %h) {note} : (tensor<4x3xf32>, tensor<?x3xf32>) -> (tensor<16x3xf32>, tensor<?x3xf32>)
  %a, %b = dist.all_gather over @all (%x, %h) {note} : (tensor<4x3xf32>, tensor<?x3xf32>) -> (tensor<16x3xf32>, tensor<?x3xf32>)
  // CHECK-NEXT: dist.reduce_scatter "avg" over @pair (%x) : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %s = dist.reduce_scatter "avg" over @pair (%x) : (tensor<4x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: dist.all_to_all [1, 3] to [0, 2] over @dp (%x) : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %t = dist.all_to_all [1, 3] to [0, 2] over @dp (%x) : (tensor<4x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: dist.broadcast 1 over @pair (%x) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %u = dist.broadcast 1 over @pair (%x) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  fx.output(%y) : (tensor<4x3xf32>) -> ()
}

// CHECK: module attributes {p = #dist.placement<shard<0>>}
builtin.module attributes {p = #dist.placement<shard<0>>} {}
