// RUN: fxc-opt %s --load-pass=%S/inputs/mark_funcs.py -p 'mark-funcs{mode=options label="a b, {c}" scale=2 sizes=1, 2,3 loud}' | filecheck %s
// RUN: not fxc-opt %s --load-pass=%S/inputs/mark_funcs.py -p 'mark-funcs{lable=x}' 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not fxc-opt %s --load-pass=%S/inputs/mark_funcs.py -p 'mark-funcs{limit=many}' 2>&1 | filecheck %s --check-prefix=TYPE
// RUN: not fxc-opt %s --load-pass=%S/inputs/mark_funcs.py -p 'mark-funcs{mode=other}' 2>&1 | filecheck %s --check-prefix=MODE
// RUN: not fxc-opt %s --load-pass=%S/inputs/mark_funcs.py -p 'mark-func' 2>&1 | filecheck %s --check-prefix=PASS
// RUN: not fxc-opt %s --load-pass=%S/inputs/mark_funcs.py -p 'mark-funcs,' 2>&1 | filecheck %s --check-prefix=SYNTAX
// RUN: not fxc-opt %s -p 'simplify{x=1}' 2>&1 | filecheck %s --check-prefix=NAMED
// RUN: not fxc-opt %s --load-pass=%S/inputs/none.py 2>&1 | filecheck %s --check-prefix=NO-FILE
// RUN: fxc-opt --list-passes --load-pass=%S/inputs/mark_funcs.py | filecheck %s --check-prefix=LIST

// CHECK: mark = "'a b, {c}' 2.0 (1, 2, 3) True None"
func.func @f() {
  func.return
}

// UNKNOWN: error: pass mark-funcs has no option lable; it accepts: label: str = seen, scale: float = 1.0, sizes: list of int
// UNKNOWN-NEXT: hint: did you mean label
// TYPE:    error: option limit of pass mark-funcs is int or none, got many
// MODE:    error: option mode of pass mark-funcs is one of count|options, got other
// PASS:    error: there is no pass or pipeline mark-func
// PASS-NEXT: hint: did you mean mark-funcs
// SYNTAX:  error: malformed pipeline: expected the name of a pass or of an op at column 12, found the end
// NAMED:   error: pipeline simplify has no option x; it takes none
// NO-FILE: error: no pass can be loaded from {{.*}}none.py: there is no such file
// LIST:      Passes:
// LIST:      mark-funcs {{ +}}Note on each function
// LIST-NEXT: label: str = seen
// LIST:      Pipelines:
// LIST:      simplify {{ +}}canonicalize,cse,
