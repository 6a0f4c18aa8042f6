// RUN: fxc-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{expected one of vector_bits, threads, l1, l2, l3, clock, bandwidth, launch, cpu, features, each once; got cores}}
builtin.module attributes {fxc.target = #target.cpu<cores = 2>} {}

// -----

// expected-error@+1 {{expected one of vector_bits, threads, l1, l2, l3, clock, bandwidth, launch, cpu, features, each once; got threads}}
builtin.module attributes {fxc.target = #target.cpu<threads = 2, threads = 3>} {}

// -----

// expected-error@+1 {{#target.gpu: warp must be positive, not 0}}
builtin.module attributes {fxc.target = #target.gpu<warp = 0>} {}
