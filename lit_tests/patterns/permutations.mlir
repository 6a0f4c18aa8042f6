// RUN: fxc-opt %s --split-input-file --pass-pipeline=canonicalize | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=canonicalize,canonicalize | filecheck %s

/// Part of a random permutation, or all of it.
// CHECK-LABEL: func.func @add_at_distinct
// CHECK:         [[G:%[0-9a-z]+]] = torch.aten.index_select.default(%x, 0, %i)
// CHECK-NEXT:    [[A:%[0-9a-z]+]] = torch.aten.add.Tensor([[G]], %y)
// CHECK-NEXT:    %a = torch.aten.index_copy.default(%x, 0, %i, [[A]])
// CHECK:         [[H:%[0-9a-z]+]] = torch.aten.index_select.default(%a, 1, %q)
// CHECK-NEXT:    [[B:%[0-9a-z]+]] = torch.aten.add.Tensor([[H]], %x)
// CHECK-NEXT:    %b = torch.aten.index_copy.default(%a, 1, %q, [[B]])
func.func @add_at_distinct(%x: tensor<6x3xf32, #torch.meta<device = "cuda:0">>, %y: tensor<4x3xf32, #torch.meta<device = "cuda:0">>) {
  %p = torch.aten.randperm.default(6, device = device("cuda:0")) : () -> tensor<6xi64, #torch.meta<device = "cuda:0">>
  %i = torch.aten.slice.Tensor(%p, 0, 0, 4) : (tensor<6xi64, #torch.meta<device = "cuda:0">>) -> tensor<4xi64, #torch.meta<device = "cuda:0">>
  %a = torch.aten.index_add.default(%x, 0, %i, %y) : (tensor<6x3xf32, #torch.meta<device = "cuda:0">>, tensor<4xi64, #torch.meta<device = "cuda:0">>, tensor<4x3xf32, #torch.meta<device = "cuda:0">>) -> tensor<6x3xf32, #torch.meta<device = "cuda:0">>
  %q = torch.aten.randperm.default(3, device = device("cuda:0")) : () -> tensor<3xi64, #torch.meta<device = "cuda:0">>
  %b = torch.aten.index_add.default(%a, 1, %q, %x) : (tensor<6x3xf32, #torch.meta<device = "cuda:0">>, tensor<3xi64, #torch.meta<device = "cuda:0">>, tensor<6x3xf32, #torch.meta<device = "cuda:0">>) -> tensor<6x3xf32, #torch.meta<device = "cuda:0">>
  fx.output(%b) : (tensor<6x3xf32, #torch.meta<device = "cuda:0">>) -> ()
}

// -----

/// The backward of indexing with a random permutation.
// CHECK-LABEL: func.func @put_at_distinct
// CHECK:         [[G:%[0-9a-z]+]] = torch.aten.index_select.default(%z, 0, %p)
// CHECK-NEXT:    [[A:%[0-9a-z]+]] = torch.aten.add.Tensor([[G]], %y)
// CHECK-NEXT:    %a = torch.aten.index_put.default(%z, [%p], [[A]], false)
func.func @put_at_distinct(%y: tensor<6x3xf32>) {
  %p = torch.aten.randperm.default(6, device = device("cpu")) : () -> tensor<6xi64>
  %z = torch.aten.zeros.default([6, 3]) : () -> tensor<6x3xf32>
  %a = torch.aten.index_put.default(%z, [%p], %y, true) : (tensor<6x3xf32>, tensor<6xi64>, tensor<6x3xf32>) -> tensor<6x3xf32>
  fx.output(%a) : (tensor<6x3xf32>) -> ()
}

// -----

/// Numbers that may repeat: randint, two permutations, a permutation that was written, an argument.
// CHECK-LABEL: func.func @repeated
// CHECK-NOT:     index_copy
func.func @repeated(%x: tensor<6xf32, #torch.meta<device = "cuda:0">>, %y: tensor<6xf32, #torch.meta<device = "cuda:0">>, %n: tensor<6xi64, #torch.meta<device = "cuda:0">>) {
  %1 = torch.aten.randint.low(0, 6, [6], device = device("cuda:0")) : () -> tensor<6xi64, #torch.meta<device = "cuda:0">>
  %a = torch.aten.index_add.default(%x, 0, %1, %y) : (tensor<6xf32, #torch.meta<device = "cuda:0">>, tensor<6xi64, #torch.meta<device = "cuda:0">>, tensor<6xf32, #torch.meta<device = "cuda:0">>) -> tensor<6xf32, #torch.meta<device = "cuda:0">>
  %2 = torch.aten.randperm.default(3, device = device("cuda:0")) : () -> tensor<3xi64, #torch.meta<device = "cuda:0">>
  %3 = torch.aten.cat.default([%2, %2]) : (tensor<3xi64, #torch.meta<device = "cuda:0">>, tensor<3xi64, #torch.meta<device = "cuda:0">>) -> tensor<6xi64, #torch.meta<device = "cuda:0">>
  %b = torch.aten.index_add.default(%a, 0, %3, %y) : (tensor<6xf32, #torch.meta<device = "cuda:0">>, tensor<6xi64, #torch.meta<device = "cuda:0">>, tensor<6xf32, #torch.meta<device = "cuda:0">>) -> tensor<6xf32, #torch.meta<device = "cuda:0">>
  %4 = torch.aten.randperm.default(6, device = device("cuda:0")) : () -> tensor<6xi64, #torch.meta<device = "cuda:0">>
  %5 = torch.aten.zero_.default(%4) : (tensor<6xi64, #torch.meta<device = "cuda:0">>) -> tensor<6xi64, #torch.meta<device = "cuda:0">>
  %6 = torch.aten.clone.default(%5) : (tensor<6xi64, #torch.meta<device = "cuda:0">>) -> tensor<6xi64, #torch.meta<device = "cuda:0">>
  %c = torch.aten.index_add.default(%b, 0, %6, %y) : (tensor<6xf32, #torch.meta<device = "cuda:0">>, tensor<6xi64, #torch.meta<device = "cuda:0">>, tensor<6xf32, #torch.meta<device = "cuda:0">>) -> tensor<6xf32, #torch.meta<device = "cuda:0">>
  %d = torch.aten.index_add.default(%c, 0, %n, %y) : (tensor<6xf32, #torch.meta<device = "cuda:0">>, tensor<6xi64, #torch.meta<device = "cuda:0">>, tensor<6xf32, #torch.meta<device = "cuda:0">>) -> tensor<6xf32, #torch.meta<device = "cuda:0">>
  fx.output(%d) : (tensor<6xf32, #torch.meta<device = "cuda:0">>) -> ()
}

// -----

/// The same on a CPU, where no sum is atomic.
// CHECK-LABEL: func.func @add_on_cpu
// CHECK-NOT:     index_copy
func.func @add_on_cpu(%x: tensor<6x3xf32>, %y: tensor<6x3xf32>) {
  %p = torch.aten.randperm.default(6, device = device("cpu")) : () -> tensor<6xi64>
  %a = torch.aten.index_add.default(%x, 0, %p, %y) : (tensor<6x3xf32>, tensor<6xi64>, tensor<6x3xf32>) -> tensor<6x3xf32>
  fx.output(%a) : (tensor<6x3xf32>) -> ()
}

// -----

/// Factors, values that broadcast, a row that is strided, permutations of another dtype, replacement.
// CHECK-LABEL: func.func @other_updates
// CHECK-NOT:     index_select
func.func @other_updates(%x: tensor<6x3xf32, #torch.meta<device = "cuda:0">>, %y: tensor<6x3xf32, #torch.meta<device = "cuda:0">>, %r: tensor<3xf32, #torch.meta<device = "cuda:0">>, %s: tensor<6x3xf32, #torch.meta<strides = [1, 6], device = "cuda:0">>) {
  %p = torch.aten.randperm.default(6, device = device("cuda:0")) : () -> tensor<6xi64, #torch.meta<device = "cuda:0">>
  %a = torch.aten.index_add.default(%x, 0, %p, %y, alpha = 2) : (tensor<6x3xf32, #torch.meta<device = "cuda:0">>, tensor<6xi64, #torch.meta<device = "cuda:0">>, tensor<6x3xf32, #torch.meta<device = "cuda:0">>) -> tensor<6x3xf32, #torch.meta<device = "cuda:0">>
  %b = torch.aten.index_put.default(%a, [%p], %r, true) : (tensor<6x3xf32, #torch.meta<device = "cuda:0">>, tensor<6xi64, #torch.meta<device = "cuda:0">>, tensor<3xf32, #torch.meta<device = "cuda:0">>) -> tensor<6x3xf32, #torch.meta<device = "cuda:0">>
  %c = torch.aten.index_add.default(%b, 0, %p, %s) : (tensor<6x3xf32, #torch.meta<device = "cuda:0">>, tensor<6xi64, #torch.meta<device = "cuda:0">>, tensor<6x3xf32, #torch.meta<strides = [1, 6], device = "cuda:0">>) -> tensor<6x3xf32, #torch.meta<device = "cuda:0">>
  %q = torch.aten.randperm.default(6, dtype = torch.int32, device = device("cuda:0")) : () -> tensor<6xi32, #torch.meta<device = "cuda:0">>
  %d = torch.aten.index_add.default(%c, 0, %q, %y) : (tensor<6x3xf32, #torch.meta<device = "cuda:0">>, tensor<6xi32, #torch.meta<device = "cuda:0">>, tensor<6x3xf32, #torch.meta<device = "cuda:0">>) -> tensor<6x3xf32, #torch.meta<device = "cuda:0">>
  %e = torch.aten.index_put.default(%d, [%p], %y) : (tensor<6x3xf32, #torch.meta<device = "cuda:0">>, tensor<6xi64, #torch.meta<device = "cuda:0">>, tensor<6x3xf32, #torch.meta<device = "cuda:0">>) -> tensor<6x3xf32, #torch.meta<device = "cuda:0">>
  fx.output(%e) : (tensor<6x3xf32, #torch.meta<device = "cuda:0">>) -> ()
}
