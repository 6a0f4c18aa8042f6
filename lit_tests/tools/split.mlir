// RUN: fxc-opt %s --split-input-file | filecheck %s
// RUN: not fxc-opt %s 2>&1 | filecheck %s --check-prefix=WHOLE

/// The same symbol in two parts is fine, in one file it is not. A banner is no separator.
// CHECK:      func.func @f()
// CHECK:      // -----{{$}}
// CHECK-NEXT: builtin.module
// CHECK-NEXT:   func.func @f(%a: i32)
// WHOLE: error: {{.*}}edefinition of symbol "f"
func.func @f() {
  func.return
}
// -----// IR Dump After cse //----- //

// -----

func.func @f(%a: i32) {
  func.return
}
