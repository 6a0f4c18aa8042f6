// RUN: fxc-opt %s --split-input-file --pass-pipeline=canonicalize | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=canonicalize,canonicalize | filecheck %s

/// Adding nothing: an integer zero to integers, -0.0 to floats; and x - 0.0, x - 0.
// CHECK-LABEL: func.func @add_zero
// CHECK-NEXT:    %s = torch.aten.sin.default(%i)
// CHECK-NEXT:    %t = torch.aten.sin.default(%x)
// CHECK-NEXT:    fx.output
func.func @add_zero(%i: tensor<4xi64>, %x: tensor<4xf32>) {
  %a = torch.aten.add.Tensor(%i, 0) : (tensor<4xi64>) -> tensor<4xi64>
  %b = torch.aten.sub.Scalar(%a, 0) : (tensor<4xi64>) -> tensor<4xi64>
  %s = torch.aten.sin.default(%b) : (tensor<4xi64>) -> tensor<4xf32>
  %c = torch.aten.add.Scalar(%x, -0.0) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.sub.Tensor(%c, 0.0) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.sub.Tensor(%d, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %t = torch.aten.sin.default(%e) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%s, %t)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// -0.0 + 0.0 and -0.0 - -0.0 are 0.0; a float zero makes floats of integers; alpha is not one.
// CHECK-LABEL: func.func @add_zero_that_counts
// CHECK-NEXT:    torch.aten.add.Tensor(%x, 0.0)
// CHECK-NEXT:    torch.aten.add.Tensor(%x, 0)
// CHECK-NEXT:    torch.aten.sub.Tensor(%x, -0.0)
// CHECK-NEXT:    torch.aten.add.Tensor(%i, 0.0)
// CHECK-NEXT:    torch.aten.add.Tensor(%x, -0.0, alpha = -1)
// CHECK-NEXT:    torch.aten.add.Tensor(%z, -0.0)
func.func @add_zero_that_counts(%i: tensor<4xi64>, %x: tensor<4xf32>, %z: tensor<4xcomplex<f32>>) {
  %a = torch.aten.add.Tensor(%x, 0.0) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.add.Tensor(%x, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.sub.Tensor(%x, -0.0) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.add.Tensor(%i, 0.0) : (tensor<4xi64>) -> tensor<4xf32>
  %e = torch.aten.add.Tensor(%x, -0.0, alpha = -1) : (tensor<4xf32>) -> tensor<4xf32>
  %f = torch.aten.add.Tensor(%z, -0.0) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %g = torch.aten.abs.default(%f) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  %s = torch.aten.stack.default([%a, %b, %c, %d, %e, %g]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<6x4xf32>
  fx.output(%s) : (tensor<6x4xf32>) -> ()
}

// -----

/// The sum is returned and would be the argument itself; or the argument is written between.
// CHECK-LABEL: func.func @add_zero_alias
// CHECK:         %a = torch.aten.add.Tensor(%i, 0)
// CHECK:         %b = torch.aten.add.Tensor(%j, 0)
func.func @add_zero_alias(%i: tensor<4xi64>) {
  %a = torch.aten.add.Tensor(%i, 0) : (tensor<4xi64>) -> tensor<4xi64>
  %j = torch.aten.neg.default(%i) : (tensor<4xi64>) -> tensor<4xi64>
  %b = torch.aten.add.Tensor(%j, 0) : (tensor<4xi64>) -> tensor<4xi64>
  %w = torch.aten.zero_.default(%j) : (tensor<4xi64>) -> tensor<4xi64>
  %c = torch.aten.mul.Tensor(%b, %j) : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  fx.output((%a, %c)) : (tensor<4xi64>, tensor<4xi64>) -> ()
}

// -----

/// x * 1, x / 1, x ** 1, as long as the dtype stays.
// CHECK-LABEL: func.func @times_one
// CHECK-NEXT:    %s = torch.aten.sin.default(%i)
// CHECK-NEXT:    %t = torch.aten.sin.default(%x)
func.func @times_one(%i: tensor<4xi64>, %x: tensor<4xf32>) {
  %a = torch.aten.mul.Tensor(%i, 1) : (tensor<4xi64>) -> tensor<4xi64>
  %s = torch.aten.sin.default(%a) : (tensor<4xi64>) -> tensor<4xf32>
  %b = torch.aten.mul.Scalar(%x, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.div.Tensor(%b, 1) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.pow.Tensor_Scalar(%c, 1) : (tensor<4xf32>) -> tensor<4xf32>
  %t = torch.aten.sin.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%s, %t)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Integers become floats; other factors; inf * (1 + 0i) is not inf.
// CHECK-LABEL: func.func @times_one_that_counts
// CHECK-NEXT:    torch.aten.mul.Tensor(%i, 1.0)
// CHECK-NEXT:    torch.aten.div.Tensor(%i, 1)
// CHECK-NEXT:    torch.aten.mul.Tensor(%x, 0)
// CHECK-NEXT:    torch.aten.mul.Tensor(%x, -1)
// CHECK-NEXT:    torch.aten.mul.Tensor(%z, 1)
func.func @times_one_that_counts(%i: tensor<4xi64>, %x: tensor<4xf32>, %z: tensor<4xcomplex<f32>>) {
  %a = torch.aten.mul.Tensor(%i, 1.0) : (tensor<4xi64>) -> tensor<4xf32>
  %b = torch.aten.div.Tensor(%i, 1) : (tensor<4xi64>) -> tensor<4xf32>
  %c = torch.aten.mul.Tensor(%x, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.mul.Tensor(%x, -1) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.mul.Tensor(%z, 1) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %f = torch.aten.abs.default(%e) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  %s = torch.aten.stack.default([%a, %b, %c, %d, %f]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<5x4xf32>
  fx.output(%s) : (tensor<5x4xf32>) -> ()
}

// -----

/// -(-x), and what does not change when it is done twice.
// CHECK-LABEL: func.func @twice
// CHECK-NEXT:    %c = torch.aten.relu.default(%x)
// CHECK-NEXT:    %e = torch.aten.exp.default(%c)
func.func @twice(%x: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.neg.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.relu.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.relu.default(%c) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.exp.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%e) : (tensor<4xf32>) -> ()
}

// -----

/// Both are returned; or x is written between the two.
// CHECK-LABEL: func.func @twice_visible
// CHECK:         %a = torch.aten.relu.default
// CHECK-NEXT:    %b = torch.aten.relu.default
// CHECK-NEXT:    %t = torch.aten.exp.default
// CHECK-NEXT:    %c = torch.aten.neg.default
// CHECK-NEXT:    torch.aten.zero_.default
// CHECK-NEXT:    %d = torch.aten.neg.default
func.func @twice_visible(%x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.relu.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %t = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.neg.default(%t) : (tensor<4xf32>) -> tensor<4xf32>
  %w = torch.aten.zero_.default(%t) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.neg.default(%c) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.exp.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%a, %b, %e)) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Integers need no rounding; floats do.
// CHECK-LABEL: func.func @round_of_integer
// CHECK-NEXT:    %b = torch.aten.ceil.default(%x)
// CHECK-NEXT:    torch.aten.add.Tensor(%i, %b)
func.func @round_of_integer(%i: tensor<4xi64>, %x: tensor<4xf32>) {
  %a = torch.aten.floor.default(%i) : (tensor<4xi64>) -> tensor<4xi64>
  %b = torch.aten.ceil.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.add.Tensor(%a, %b) : (tensor<4xi64>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%c) : (tensor<4xf32>) -> ()
}

// -----

/// Through a wider dtype and back, or on to a third one.
// CHECK-LABEL: func.func @conversions
// CHECK-NEXT:    %s = torch.aten.sin.default(%h)
// CHECK-NEXT:    %d = torch.prims.convert_element_type.default(%h, torch.float64)
// CHECK-NEXT:    %f = torch.aten._to_copy.default(%i, dtype = torch.float32)
func.func @conversions(%h: tensor<4xf16>, %i: tensor<4xi32>) {
  %a = torch.aten._to_copy.default(%h, dtype = torch.float32) : (tensor<4xf16>) -> tensor<4xf32>
  %b = torch.aten._to_copy.default(%a, dtype = torch.float16) : (tensor<4xf32>) -> tensor<4xf16>
  %s = torch.aten.sin.default(%b) : (tensor<4xf16>) -> tensor<4xf16>
  %c = torch.prims.convert_element_type.default(%h, torch.float32) : (tensor<4xf16>) -> tensor<4xf32>
  %d = torch.prims.convert_element_type.default(%c, torch.float64) : (tensor<4xf32>) -> tensor<4xf64>
  %e = torch.aten._to_copy.default(%i, dtype = torch.float64) : (tensor<4xi32>) -> tensor<4xf64>
  %f = torch.aten._to_copy.default(%e, dtype = torch.float32) : (tensor<4xf64>) -> tensor<4xf32>
  fx.output((%s, %d, %f)) : (tensor<4xf16>, tensor<4xf64>, tensor<4xf32>) -> ()
}

// -----

/// Through a dtype that does not hold every value; a float on to an integer; strides that change on the way.
// CHECK-LABEL: func.func @lossy_conversions
// CHECK-COUNT-8: torch.aten._to_copy.default
func.func @lossy_conversions(%x: tensor<4xf32>, %i: tensor<4xi64>, %h: tensor<4xf16>, %t: tensor<2x2xf16, #torch.meta<strides = [1, 2]>>) {
  %a = torch.aten._to_copy.default(%x, dtype = torch.bfloat16) : (tensor<4xf32>) -> tensor<4xbf16>
  %b = torch.aten._to_copy.default(%a, dtype = torch.float32) : (tensor<4xbf16>) -> tensor<4xf32>
  %c = torch.aten._to_copy.default(%i, dtype = torch.float64) : (tensor<4xi64>) -> tensor<4xf64>
  %d = torch.aten._to_copy.default(%c, dtype = torch.int64) : (tensor<4xf64>) -> tensor<4xi64>
  %e = torch.aten._to_copy.default(%h, dtype = torch.float32) : (tensor<4xf16>) -> tensor<4xf32>
  %f = torch.aten._to_copy.default(%e, dtype = torch.int8) : (tensor<4xf32>) -> tensor<4xi8>
  %g = torch.aten._to_copy.default(%t, dtype = torch.float32, memory_format = torch.contiguous_format) : (tensor<2x2xf16, #torch.meta<strides = [1, 2]>>) -> tensor<2x2xf32>
  %j = torch.aten._to_copy.default(%g, dtype = torch.float16) : (tensor<2x2xf32>) -> tensor<2x2xf16>
  fx.output((%b, %d, %f, %j)) : (tensor<4xf32>, tensor<4xi64>, tensor<4xi8>, tensor<2x2xf16>) -> ()
}

// -----

/// What was converted is written before it is converted on.
// CHECK-LABEL: func.func @conversion_written
// CHECK-COUNT-2: torch.aten._to_copy.default
func.func @conversion_written(%y: tensor<4xf16>) {
  %x = torch.aten.exp.default(%y) : (tensor<4xf16>) -> tensor<4xf16>
  %a = torch.aten._to_copy.default(%x, dtype = torch.float32) : (tensor<4xf16>) -> tensor<4xf32>
  %w = torch.aten.zero_.default(%x) : (tensor<4xf16>) -> tensor<4xf16>
  %b = torch.aten._to_copy.default(%a, dtype = torch.float64) : (tensor<4xf32>) -> tensor<4xf64>
  fx.output(%b) : (tensor<4xf64>) -> ()
}

// -----

/// A copy of a number, of which a known conversion makes a tensor; one of a tensor, and of a number to integers, remain.
// CHECK-LABEL: func.func @copy_of_number
// CHECK-NEXT:    torch.aten.scalar_tensor.default(0.1, dtype = torch.float32, device = device("cpu")) : () -> tensor<f32>
// CHECK-NEXT:    torch.aten._to_copy.default(%x, dtype = torch.float64) : (tensor<4xf32>) -> tensor<4xf64>
// CHECK-NEXT:    torch.aten._to_copy.default(2.7, dtype = torch.int64) : () -> tensor<i64>
func.func @copy_of_number(%x: tensor<4xf32>) {
  %a = torch.aten._to_copy.default(0.1, dtype = torch.float32, device = device("cpu")) : () -> tensor<f32>
  %b = torch.aten._to_copy.default(%x, dtype = torch.float64) : (tensor<4xf32>) -> tensor<4xf64>
  %c = torch.aten._to_copy.default(2.7, dtype = torch.int64) : () -> tensor<i64>
  fx.output((%a, %b, %c)) : (tensor<f32>, tensor<4xf64>, tensor<i64>) -> ()
}
