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

// -----

// expected-error@+1 {{the form is one of looped, held, stored, online, not "spiral"}}
builtin.module attributes {a = #tile.schedule<"inner", stages = [0], lanes = 4, unroll = 1, block = 8, form = "spiral">} {}

// -----

// expected-error@+1 {{tile is not for kernels that are "inner"}}
builtin.module attributes {a = #tile.schedule<"inner", stages = [0], lanes = 4, unroll = 1, block = 8, tile = 4>} {}

// -----

// expected-error@+1 {{parts is not for kernels that are "elementwise"}}
builtin.module attributes {a = #tile.schedule<"elementwise", stages = [0], lanes = 4, unroll = 1, block = 8, parts = 2>} {}

// -----

// expected-error@+1 {{form is not for kernels that are "outer"}}
builtin.module attributes {a = #tile.schedule<"outer", stages = [0], lanes = 4, unroll = 1, block = 8, form = "held">} {}

// -----

// expected-error@+1 {{a row in parts cannot be "held"}}
builtin.module attributes {a = #tile.schedule<"inner", stages = [0], lanes = 4, unroll = 1, block = 8, parts = 2, form = "held">} {}

// -----

// expected-error@+1 {{expected one of tile, parts, piece, form, program, but got part}}
builtin.module attributes {a = #tile.schedule<"inner", stages = [0], lanes = 4, unroll = 1, block = 8, part = 2>} {}

// -----

// expected-error@+1 {{the program is one of own, last, not "first"}}
builtin.module attributes {a = #tile.schedule<"inner", stages = [0], lanes = 4, unroll = 1, block = 8, program = "first">} {}

// -----

// expected-error@+1 {{one program has no parts}}
builtin.module attributes {a = #tile.schedule<"inner", stages = [0], lanes = 4, unroll = 1, block = 8, parts = 2, program = "last">} {}
