// RUN: fxc-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{the kind is one of elementwise, inner, outer, not "spiral"}}
builtin.module attributes {a = #tile.schedule<"spiral", stages = [0], lanes = 16, unroll = 4, block = 8>} {}

// -----

// expected-error@+1 {{lanes must be positive, not 0}}
builtin.module attributes {a = #tile.schedule<"inner", stages = [0], lanes = 0, unroll = 4, block = 8>} {}

// -----

// expected-error@+1 {{stages are ascending numbers, one at least}}
builtin.module attributes {a = #tile.schedule<"inner", stages = [1, 0], lanes = 4, unroll = 4, block = 8>} {}

// -----

// expected-error@+1 {{Expected 'lanes'}}
builtin.module attributes {a = #tile.schedule<"inner", stages = [0], unroll = 4>} {}
