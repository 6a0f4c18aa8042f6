// RUN: fxc-opt %s --split-input-file --verify-diagnostics -p '' | filecheck %s --allow-empty
// RUN: not fxc-opt %s --split-input-file 2>&1 | filecheck %s --check-prefix=ERRORS
// CHECK-NOT: error

/// Dominance: within a block.
// ERRORS: error: test.op: operand 0 does not dominate this use: %x is defined by test.op
// ERRORS-NEXT: at: {{.*}}diagnostics.mlir:11:3
// ERRORS-NEXT: op: "test.op"(%x) : (i32) -> ()
func.func @use_before_def() {
  // expected-error@+1 {{operand 0 does not dominate this use: %x is defined by test.op}}
  "test.op"(%x) : (i32) -> ()
  %x = "test.op"() : () -> i32
  func.return
}

// -----

/// Dominance: between blocks.
func.func @one_branch_only(%c: i1) -> i32 {
  cf.cond_br %c, ^left, ^right
^left:
  %x = "test.op"() : () -> i32
  cf.br ^right
^right:
  // expected-error-re@below {{func.return: operand 0 does not dominate {{.+}} defined by test.op}}
  func.return %x : i32
}

// -----

/// Dominance: an op in a region may not use the results of the op around it.
func.func @own_result() {
  %x = "test.op"() ({
    // expected-error@+1 {{test.op: operand 0 does not dominate this use: %x is defined by test.op}}
    "test.op"(%x) : (i32) -> ()
    "test.termop"() : () -> ()
  }) : () -> i32
  func.return
}

// -----

/// Loops, unreachable blocks and graph regions are fine.
func.func @loop(%c: i1) -> i32 {
  %x = "test.op"() : () -> i32
  cf.br ^head
^head:
  %y = "test.op"(%x) : (i32) -> i32
  cf.cond_br %c, ^head, ^end
^unreachable:
  "test.op"(%y) : (i32) -> ()
  cf.br ^end
^end:
  func.return %y : i32
}
"test.op"(%later) : (i32) -> ()
%later = "test.op"() : () -> i32

// -----

/// Symbols.
func.func @missing_symbol() {
  // expected-error@+1 {{callee names @nowhere, which does not exist}}
  func.call @nowhere() : () -> ()
  func.return
}

// -----

func.func @wrong_type(%a: i32) -> i64 {
  // expected-error@+1 {{func.return}}
  func.return %a : i32
}

// -----

// ERRORS: error: {{.*}}not registered
// ERRORS-NEXT: at: {{.*}}diagnostics.mlir:81:15
// ERRORS-NEXT: op: "nothing.here"() : () -> ()
// expected-error@below {{nothing.here is not registered}}
"nothing.here"() : () -> ()

// -----

func.func @fine() {
  func.return
}
