// RUN: not fxc run %s -p dce --seed 0 2>&1 | filecheck %s
// RUN: not fxc translate %s --to=table 2>&1 | filecheck %s
// RUN: fxc report %s | filecheck %s --check-prefix=REPORT

/// A file names what it calls; naming what is not on the list is an error when it is run, and reading it does nothing.
func.func @main(%x: tensor<2xf32>) -> !fx.value {
  %r = fx.call_function @os.system("exit 1") : () -> !fx.value
  fx.output(%r) : (!fx.value) -> ()
}

// CHECK:     error: a graph may not call 'os.system': it is neither a PyTorch operator nor on the list of allowed functions
// CHECK:     hint: {{.*}}--allow=MODULE:NAME
// CHECK-NOT: Traceback
// REPORT:    1  fx.call_function os.system
