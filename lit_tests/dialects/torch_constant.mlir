// RUN: fxc-opt %s --split-input-file --verify-diagnostics | filecheck %s
// RUN: fxc-opt %s --split-input-file --verify-diagnostics --print-op-generic | filecheck %s --check-prefix=GENERIC

/// Elements in row-major order where they are few and of a plain dtype.
func.func @elements() {
  // CHECK: torch.constant([1.0, nan, -0.0, inf, -inf]) : tensor<5xf32>
  // GENERIC: "torch.constant"() <{value = #torch.literal<"0000803f0000c07f000000800000807f000080ff">}> : () -> tensor<5xf32>
  %a = torch.constant([1.0, nan, -0.0, inf, -inf]) : tensor<5xf32>
  // CHECK-NEXT: torch.constant([1, -2, 9223372036854775807]) : tensor<3xi64>
  %b = torch.constant([1, -2, 9223372036854775807]) : tensor<3xi64>
  // CHECK-NEXT: torch.constant([true, false]) : tensor<2xi1>
  %c = torch.constant([true, false]) : tensor<2xi1>
  // CHECK-NEXT: torch.constant([255]) : tensor<ui8>
  %d = torch.constant([255]) : tensor<ui8>
  // CHECK-NEXT: torch.constant([]) : tensor<0x4xf64>
  %e = torch.constant([]) : tensor<0x4xf64>
  // CHECK-NEXT: torch.constant([0.5, 65504.0]) {fx.note = "kept"} : tensor<2xf16>
  %f = torch.constant([0.5, 65504.0]) {fx.note = "kept"} : tensor<2xf16>
  func.return
}

// -----

/// Bytes for other dtypes, and for a NaN that is not the usual one.
func.func @bytes() {
  // CHECK: torch.constant(#torch.literal<"803f">) : tensor<bf16>
  %a = torch.constant(#torch.literal<"803f">) : tensor<bf16>
  // CHECK-NEXT: torch.constant(#torch.literal<"0100c07f">) : tensor<f32>
  %b = torch.constant(#torch.literal<"0100c07f">) : tensor<f32>
  // CHECK-NEXT: torch.constant(#torch.literal<"0000803f00000000">) : tensor<complex<f32>>
  %c = torch.constant(#torch.literal<"0000803f00000000">) : tensor<complex<f32>>
  // CHECK-NEXT: torch.constant([2.0]) : tensor<f32>
  %d = torch.constant(#torch.literal<"00000040">) : tensor<f32>
  func.return
}

// -----

/// Host values.
func.func @host() {
  // CHECK: torch.constant(3) : !torch.int
  %a = torch.constant(3) : !torch.int
  // CHECK-NEXT: torch.constant(-0.0) : !torch.float<"-0.0">
  %b = torch.constant(-0.0) : !torch.float<"-0.0">
  // CHECK-NEXT: torch.constant(true) : !torch.bool
  %c = torch.constant(true) : !torch.bool
  // CHECK-NEXT: torch.constant("a\22b") : !fx.value
  %d = torch.constant("a\"b") : !fx.value
  // CHECK-NEXT: torch.constant(none) : !torch.none
  %e = torch.constant(none) : !torch.none
  func.return
}

// -----

// expected-error@+1 {{tensor<2xf32> has 8 bytes, but the literal has 4}}
%a = torch.constant([1.0]) : tensor<2xf32>

// -----

// expected-error@+1 {{the value of a constant tensor is #torch.literal}}
%a = torch.constant(1.0) : tensor<f32>

// -----

// expected-error@+1 {{the value of a host constant is a number, a string or none}}
%a = torch.constant(#torch.literal<"00">) : !torch.int

// -----

// expected-error@+1 {{a list of elements needs a tensor type of a plain dtype}}
%a = torch.constant([1.0]) : tensor<1xbf16>

// -----

// expected-error@+1 {{a list of elements needs a tensor type of a plain dtype}}
%a = torch.constant([1.0]) : !torch.float

// -----

// expected-error@+1 {{an element does not fit tensor<1xi8>}}
%a = torch.constant([300]) : tensor<1xi8>

// -----

// expected-error@+1 {{an element does not fit tensor<1xf16>}}
%a = torch.constant([1.0e10]) : tensor<1xf16>

// -----

// expected-error@+1 {{an element does not fit tensor<1xi64>}}
%a = torch.constant([1.5]) : tensor<1xi64>

// -----

// expected-error@+1 {{an element does not fit tensor<1xi64>}}
%a = torch.constant([[1]]) : tensor<1xi64>

// -----

// expected-error@+1 {{a constant tensor has a static shape}}
%a = torch.constant([1]) : tensor<?xi64>

// -----

// expected-error@+1 {{PyTorch has no dtype i7}}
%a = torch.constant(#torch.literal<"00">) : tensor<1xi7>

// -----

// expected-error@+1 {{#torch.literal holds pairs of hexadecimal digits}}
%a = torch.constant(#torch.literal<"0g">) : tensor<1xi8>

// -----

// expected-error@+1 {{#torch.literal holds pairs of hexadecimal digits}}
%a = torch.constant(#torch.literal<"000">) : tensor<1xi8>
