// RUN: not fxc-opt %s --split-input-file --emit=llvm 2>&1 | filecheck %s

// CHECK: the CPU backend has no code for arith.addui_extended
// CHECK: op: %r, %o = arith.addui_extended
tile.kernel @k(%y: !tile.ptr<i32> {tile.access = "write", tile.elements = 1}) attributes {grid = array<i64: 1>} {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : i32
  %r, %o = arith.addui_extended %one, %one : i32, i1
  tile.store %r, %y[%c0] : i32, !tile.ptr<i32>
  tile.return
}

// -----

// CHECK: the module has no tile.kernel to print
func.func @f() {
  func.return
}
