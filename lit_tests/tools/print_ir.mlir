// RUN: fxc-opt %s %{passes} -p drop-unused,mark-funcs --print-ir-after=drop-unused -o %t 2>&1 | filecheck %s --check-prefix=AFTER
// RUN: fxc-opt %s %{passes} -p drop-unused,drop-unused,mark-funcs --print-ir-after-change -o %t 2>&1 | filecheck %s --check-prefix=CHANGE
// RUN: fxc-opt %s %{passes} -p drop-unused,mark-funcs --print-ir-before-all --print-ir-after-all -o %t 2>&1 | filecheck %s --check-prefix=ALL
// RUN: not fxc-opt %s %{passes} -p sink-first --print-ir-after-failure 2>&1 | filecheck %s --check-prefix=FAILURE
// RUN: fxc-opt %s %{passes} -p 'func.func(drop-unused)' --print-ir-after-all -o %t 2>&1 | filecheck %s --check-prefix=ANCHOR
// RUN: not fxc-opt %s %{passes} --print-ir-after=drop-used 2>&1 | filecheck %s --check-prefix=NAME
// RUN: fxc-opt %s %{passes} -p drop-unused --print-ir-after-all 2>/dev/null | filecheck %s --check-prefix=STDOUT
// RUN: fxc-opt %s %{passes} -p drop-unused,mark-funcs --statistics -o %t 2>&1 | filecheck %s --check-prefix=STATISTICS
// RUN: fxc-opt %s %{passes} -p 'drop-unused,func.func(mark-funcs)' --timing -o %t 2>&1 | filecheck %s --check-prefix=TIMING

func.func @f(%a: i32) -> i32 {
  %x = "test.op"(%a) : (i32) -> i32
  %y = "test.op"(%x) : (i32) -> i32
  %2 = "test.op"(%a) : (i32) -> i32
  func.return %y : i32
}

// AFTER:         // -----// IR Dump After drop-unused //----- //
// AFTER-NEXT:    builtin.module
// AFTER-COUNT-2: test.op
// AFTER-NOT:     test.op
// AFTER-NOT:     IR Dump

// CHANGE:     IR Dump After drop-unused //
// CHANGE-NOT: IR Dump After drop-unused //
// CHANGE:     IR Dump After mark-funcs //

// ALL:      IR Dump Before drop-unused //
// ALL:      IR Dump After drop-unused //
// ALL:      IR Dump Before mark-funcs //
// ALL:      IR Dump After mark-funcs //

// FAILURE: IR Dump After sink-first Failed //
// FAILURE: error: pass sink-first left IR that does not verify: test.op: operand 0 does not dominate this use
// FAILURE-NEXT: at: {{.*}}print_ir.mlir:13:3
// FAILURE-NEXT: op: %y = "test.op"(%x)

// ANCHOR:      IR Dump After drop-unused ('func.func' operation: @f) //
// ANCHOR-NEXT: func.func @f

// NAME: error: there is no pass drop-used to print around
// NAME-NEXT: hint: did you mean drop-unused

// STDOUT-NOT: IR Dump

// STATISTICS: drop-unused {{ +}}6  {{ *}}5 (-1)  dropped 1
// STATISTICS: mark-funcs {{ +}}5  {{ *}}5 (+0)

// TIMING:      wall  share {{ *}}cpu  calls
// TIMING-NEXT: total
// TIMING-NEXT:   load passes
// TIMING-NEXT:   parse
// TIMING-NEXT:   pipeline
// TIMING-NEXT:     verify input
// TIMING-NEXT:     drop-unused
// TIMING-NEXT:       verify
// TIMING:          'func.func' Pipeline
// TIMING-NEXT:       mark-funcs
