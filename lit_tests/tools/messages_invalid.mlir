// RUN: not fxc-opt %s --split-input-file 2>&1 | filecheck %s

/// Messages name values as the file does: by number, and by number of a result.
// CHECK:      error: torch.aten.add.Tensor: argument 'alpha' must be of type Scalar
// CHECK-NEXT: at: {{.*}}messages_invalid.mlir:[[# @LINE + 3]]:3
// CHECK-NEXT: op: %12 = torch.aten.add.Tensor(%7, 1, alpha = "x")
func.func @numbers(%7: tensor<4xf32>) -> tensor<4xf32> {
  %12 = torch.aten.add.Tensor(%7, 1, alpha = "x") : (tensor<4xf32>) -> tensor<4xf32>
  func.return %12 : tensor<4xf32>
}

// -----

// CHECK: error: test.op: operand 0 does not dominate this use: %12#1 is defined by test.op
// CHECK: op: "test.op"(%12#1, %r#1)
func.func @several_results() {
  %r:2 = "test.op"() : () -> (i32, i32)
  "test.op"(%12#1, %r#1) : (i32, i32) -> ()
  %12:2 = "test.op"() : () -> (i32, i32)
  func.return
}

// -----

// CHECK:      error: %yy is not defined
// CHECK-NEXT: at: {{.*}}:30:34
// CHECK-NEXT: op: %a = torch.aten.add.Tensor(%y, %yy)
// CHECK-NEXT: hint: did you mean %y?
func.func @undefined(%y: tensor<4xf32>) -> tensor<4xf32> {
  %a = torch.aten.add.Tensor(%y, %yy) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// -----

// CHECK:      error: an element type expected
// CHECK-NEXT: at: {{.*}}:39:29
// CHECK:      hint: write a shape as in tensor<4x?xf32>
func.func @shape(%x: tensor<>) {
  func.return
}

// -----

// CHECK:      error: a float has a point: write 1.0e999
// CHECK-NEXT: at: {{.*}}:48:35
func.func @float(%x: tensor<4xf32>) {
  %a = torch.aten.mul.Tensor(%x, -1e999) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK:      error: 1.0e999 is too large for a float
// CHECK-NEXT: at: {{.*}}:57:34
func.func @large(%x: tensor<4xf32>) {
  %a = torch.aten.mul.Tensor(%x, 1.0e999) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK:      error: func.func: Redefinition of symbol "f"
// CHECK-NEXT: at: {{.*}}:68:1
func.func @f() {
  func.return
}
func.func @f() {
  func.return
}

// -----

// CHECK:      error: Operation foo.bar is not registered
// CHECK-NEXT: at: {{.*}}:78:
// CHECK-NEXT: op: foo.bar()
// CHECK-NEXT: hint: fxc-opt --allow-unregistered-dialect
foo.bar()

// -----

// CHECK:      error: 'foo.bar' is not registered
// CHECK:      hint: fxc-opt --allow-unregistered-dialect
func.func private @type(!foo.bar)
