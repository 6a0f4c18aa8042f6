// RUN: not fxc-opt %s --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// CHECK: error: {{.*}}diagnostics_invalid.mlir:5: unexpected error: func.call: callee names @nowhere
func.func @not_expected() {
  func.call @nowhere() : () -> ()
  func.return
}

// -----

// CHECK: error: {{.*}}diagnostics_invalid.mlir:14: expected error "some text" was not produced
func.func @expected() {
  // expected-error@+1 {{some text}}
  func.return
}

// -----

// CHECK: unexpected error: func.call: callee names @nowhere
// CHECK: expected error "callee" was not produced
func.func @on_another_line() {
  func.call @nowhere() : () -> ()
  // expected-error@+1 {{callee}}
  func.return
}
