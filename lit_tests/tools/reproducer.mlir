// RUN: not fxc-opt %s %{passes} -p 'drop-unused,func.func(fail-on{how=crashing})' --no-verify-each --crash-reproducer=%t.mlir 2>&1 | filecheck %s
// RUN: filecheck %s --check-prefix=FILE --input-file %t.mlir
// RUN: not fxc-opt --run-reproducer %{passes} %t.mlir 2>&1 | filecheck %s --check-prefix=AGAIN
// RUN: fxc-opt %t.mlir | filecheck %s --check-prefix=IGNORED
// RUN: not fxc-opt %s --run-reproducer 2>&1 | filecheck %s --check-prefix=NONE
// RUN: cp %s %t.input.mlir
// RUN: not fxc-opt %t.input.mlir %{passes} -p fail-on --crash-reproducer=%t.input.mlir 2>&1 | filecheck %s --check-prefix=OVERWRITE
// RUN: diff %s %t.input.mlir
// RUN: not fxc-opt %s %{passes} -p fail-on 2>&1 | filecheck %s --check-prefix=POLITE

// CHECK: error: pass fail-on crashed: KeyError: 'missing'
// CHECK: hint: replay with: fxc-opt --run-reproducer {{.*}}.mlir --load-pass={{.*}}drop_unused.py --load-pass={{.*}}fail_on.py{{$}}
// FILE: replay with: fxc-opt --run-reproducer {{.*}}.mlir --load-pass={{.*}}drop_unused.py --load-pass={{.*}}fail_on.py{{$}}
// FILE: mlir_reproducer: {
// FILE-NEXT: pipeline: "builtin.module(drop-unused,func.func(fail-on{how=crashing}))",
// FILE-NEXT: verify_each: false,
// FILE: "test.op"
// AGAIN: error: pass fail-on crashed: KeyError: 'missing'
// IGNORED: func.func @f
// NONE: error: {{.*}}reproducer.mlir is not a reproducer
// OVERWRITE: error: the reproducer {{.*}} would overwrite the input
// POLITE: error: pass fail-on failed: cannot handle this op
// POLITE-NEXT: at: {{.*}}reproducer.mlir:{{[0-9]+}}:3
// POLITE-NEXT: op: %x = "test.op"() : () -> i32
func.func @f() -> i32 {
  %x = "test.op"() : () -> i32
  func.return %x : i32
}
