// RUN: fxc-opt %s --split-input-file --verify-diagnostics

tile.kernel @number(%n: i64) attributes {grid = array<i64: 1>} {
  // expected-error@+1 {{tile.assert: the condition has type i64, expected i1}}
  tile.assert %n, "message" : i64
  tile.return
}
