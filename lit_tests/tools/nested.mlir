// RUN: fxc-opt %s --load-pass=%S/inputs/mark_funcs.py -p 'builtin.module(mark-funcs)' | filecheck %s --check-prefix=WHOLE
// RUN: fxc-opt %s --load-pass=%S/inputs/mark_funcs.py -p 'func.func(mark-funcs)' | filecheck %s --check-prefix=EACH
// RUN: fxc-opt %s --load-pass=%S/inputs/mark_funcs.py -p 'builtin.module(builtin.module(mark-funcs))' | filecheck %s --check-prefix=INNER
// RUN: not fxc-opt %s --load-pass=%S/inputs/add_func.py -p 'func.func(add-func)' 2>&1 | filecheck %s --check-prefix=BEYOND
// RUN: not fxc-opt %s --load-pass=%S/inputs/mark_funcs.py -p 'func.fnc(mark-funcs)' 2>&1 | filecheck %s --check-prefix=NO-OP
// RUN: not fxc-opt %s --load-pass=%S/inputs/mark_funcs.py -p 'test.op(mark-funcs)' 2>&1 | filecheck %s --check-prefix=OPEN

/// An anchored pass sees one function at a time; calls to others still resolve; order and visibility stay.
// WHOLE:      func.func private @callee{{.*}}mark = "3 functions"
// WHOLE:      func.func @caller{{.*}}mark = "3 functions"
// EACH:       func.func private @callee{{.*}}mark = "1 functions"
// EACH:       func.func @caller{{.*}}mark = "1 functions"
// EACH-NEXT:    func.call @callee
// EACH-NOT:   func.func private @callee
// EACH:       builtin.module @inner
// EACH-NOT:   mark
// INNER-NOT:  mark = "3
// INNER:      func.func @in_inner{{.*}}mark = "1 functions"

func.func private @callee(%a: i32) -> i32 {
  func.return %a : i32
}

func.func @caller(%a: i32) -> i32 {
  %0 = func.call @callee(%a) : (i32) -> i32
  func.return %0 : i32
}

"test.op"() : () -> ()

builtin.module @inner {
  func.func @in_inner() {
    func.return
  }
}

// BEYOND: error: pass add-func failed: it removed, renamed or added ops beside func.func @callee
// NO-OP:  error: passes cannot be nested in func.fnc: there is no such op
// OPEN:   error: the pipeline failed: passes cannot be anchored on test.op: it uses values of the ops around it
