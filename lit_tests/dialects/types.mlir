// RUN: fxc-opt %s | fxc-opt | filecheck %s
// RUN: fxc-opt %s --print-op-generic | fxc-opt | filecheck %s

/// All of PyTorch's dtypes.
// CHECK: func.func private @floats(tensor<f32>, tensor<f64>, tensor<f16>, tensor<bf16>)
func.func private @floats(tensor<f32>, tensor<f64>, tensor<f16>, tensor<bf16>)
// CHECK-NEXT: func.func private @integers(tensor<i64>, tensor<i32>, tensor<i16>, tensor<i8>, tensor<i1>, tensor<ui8>, tensor<ui16>, tensor<ui32>, tensor<ui64>)
func.func private @integers(tensor<i64>, tensor<i32>, tensor<i16>, tensor<i8>, tensor<i1>, tensor<ui8>, tensor<ui16>, tensor<ui32>, tensor<ui64>)
// CHECK-NEXT: func.func private @complex(tensor<complex<f16>>, tensor<complex<f32>>, tensor<complex<f64>>)
func.func private @complex(tensor<complex<f16>>, tensor<complex<f32>>, tensor<complex<f64>>)
// CHECK-NEXT: func.func private @small(tensor<f8E4M3FN>, tensor<f8E5M2>, tensor<f8E4M3FNUZ>, tensor<f8E5M2FNUZ>, tensor<f8E8M0FNU>, tensor<f4E2M1FN>)
func.func private @small(tensor<f8E4M3FN>, tensor<f8E5M2>, tensor<f8E4M3FNUZ>, tensor<f8E5M2FNUZ>, tensor<f8E8M0FNU>, tensor<f4E2M1FN>)
// CHECK-NEXT: func.func private @others(tensor<2x!torch.element<"quint8">>)
func.func private @others(tensor<2x!torch.element<"quint8">>)

/// Shapes, and what differs from a contiguous tensor on the CPU.
// CHECK-NEXT: func.func private @shapes(tensor<f32>, tensor<0xf32>, tensor<2x3xf32>, tensor<?xf32>)
func.func private @shapes(tensor<f32>, tensor<0xf32>, tensor<2x3xf32>, tensor<?xf32>)
// CHECK-NEXT: func.func private @symbolic(tensor<?x3xf32, #torch.meta<sizes = ["s0 + 1", 3]>>)
func.func private @symbolic(tensor<?x3xf32, #torch.meta<sizes = ["s0 + 1", 3]>>)
// CHECK-NEXT: func.func private @strided(tensor<2x3xf32, #torch.meta<strides = [1, 2]>>, tensor<?x3xf32, #torch.meta<sizes = ["s0", 3], strides = [1, "s0"]>>)
func.func private @strided(tensor<2x3xf32, #torch.meta<strides = [1, 2]>>, tensor<?x3xf32, #torch.meta<sizes = ["s0", 3], strides = [1, "s0"]>>)
/// Fields in any order, and strings with characters that must be escaped.
// CHECK-NEXT: func.func private @placed(tensor<2xf32, #torch.meta<device = "cuda:0">>, tensor<2xf32, #torch.meta<device = "a\22b", layout = "sparse_coo">>)
func.func private @placed(tensor<2xf32, #torch.meta<device = "cuda:0">>, tensor<2xf32, #torch.meta<layout = "sparse_coo", device = "a\"b">>)

/// Host numbers, with their value in the module's symbols where it is known; None; any Python value; packed results.
// CHECK-NEXT: func.func private @scalars(!torch.int, !torch.int<"2*s0">, !torch.float, !torch.float<"1.5">, !torch.bool, !torch.bool<"True">)
func.func private @scalars(!torch.int, !torch.int<"2*s0">, !torch.float, !torch.float<"1.5">, !torch.bool, !torch.bool<"True">)
// CHECK-NEXT: func.func private @values(!fx.value, !torch.none, tuple<>, tuple<tensor<2xf32>, tuple<!torch.int>>)
func.func private @values(!fx.value, !torch.none, tuple<>, tuple<tensor<2xf32>, tuple<!torch.int>>)
