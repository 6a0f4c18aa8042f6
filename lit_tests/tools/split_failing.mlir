// RUN: not fxc-opt %s --split-input-file 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=ERRORS --input-file %t

/// Each part is processed: one that does not parse, or does not verify, prints nothing, and those after it are printed.
// CHECK:      func.func @first
// CHECK:      // -----
// CHECK-NEXT: // -----
// CHECK-NEXT: // -----
// CHECK-NEXT: builtin.module
// CHECK-NEXT:   func.func @last
// ERRORS:      error: func.call: callee names @nowhere
// ERRORS:      error: expect symbol name
// ERRORS-NEXT: at: {{.*}}split_failing.mlir:27:11
func.func @first() {
  func.return
}

// -----

func.func @second() {
  func.call @nowhere() : () -> ()
  func.return
}

// -----

func.func third() {
  func.return
}

// -----

func.func @last() {
  func.return
}
