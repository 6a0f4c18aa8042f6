// RUN: fxc-opt %s --split-input-file --verify-diagnostics

tile.kernel @not_bits(%n: i64) attributes {grid = array<i64: 1>} {
  // expected-error@+1 {{tile.iterate: the condition of the lanes has type i64, expected i1}}
  %r = tile.iterate %n (%a = %n) : i64, i64 {
    tile.next %a, %a : i64, i64
  }
  tile.return
}

// -----

tile.kernel @shapes(%n: i64) attributes {grid = array<i64: 1>} {
  %yes = arith.constant dense<1> : vector<8xi1>
  // expected-error@+1 {{tile.iterate: i64 is carried where lanes are vector<8xi1>}}
  %r = tile.iterate %yes (%a = %n) : vector<8xi1>, i64 {
    tile.next %yes, %a : vector<8xi1>, i64
  }
  tile.return
}

// -----

tile.kernel @nothing(%n: i64) attributes {grid = array<i64: 1>} {
  %yes = arith.constant 1 : i1
  // expected-error@+1 {{tile.iterate: it carries nothing}}
  tile.iterate %yes () : i1 {
    tile.next %yes : i1
  }
  tile.return
}

// -----

tile.kernel @other_types(%n: i64) attributes {grid = array<i64: 1>} {
  %yes = arith.constant 1 : i1
  // expected-error@+1 {{tile.iterate: results and arguments of the body have the types of the carried values}}
  %r = "tile.iterate"(%yes, %n) ({
  ^bb0(%a: i32):
    tile.next %yes, %n : i1, i64
  }) : (i1, i64) -> i64
  tile.return
}

// -----

tile.kernel @end(%n: i64) attributes {grid = array<i64: 1>} {
  %yes = arith.constant 1 : i1
  // expected-error@+1 {{tile.iterate: the body ends in tile.next of the condition and the carried values}}
  %r = tile.iterate %yes (%a = %n) : i1, i64 {
    tile.next %yes, %yes : i1, i1
  }
  tile.return
}

// -----

tile.kernel @effect(%out: !tile.ptr<i64> {tile.access = "write"}, %n: i64) attributes {grid = array<i64: 1>} {
  %yes = arith.constant 1 : i1
  %zero = arith.constant 0 : index
  // expected-error@+1 {{tile.iterate: the body has an effect, tile.store}}
  %r = tile.iterate %yes (%a = %n) : i1, i64 {
    tile.store %a, %out[%zero] : i64, !tile.ptr<i64>
    tile.next %yes, %a : i1, i64
  }
  tile.return
}
