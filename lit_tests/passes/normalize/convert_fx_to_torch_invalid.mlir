// RUN: fxc-opt %s --split-input-file --verify-diagnostics --pass-pipeline=convert-fx-to-torch

/// An argument without a type says what to do.
// expected-error@+1 {{the type of argument %x is not known}}
func.func @untyped(%x: !fx.value) -> !fx.value {
  %relu = fx.call_function @torch.relu(%x) : (!fx.value) -> !fx.value
  fx.output(%relu) : (!fx.value) -> ()
}

// -----

/// A function that is not on the list is refused, and never imported.
func.func @refused(%x: tensor<2xf32>) -> !fx.value {
  // expected-error@+1 {{a graph may not call 'os.system'}}
  %r = fx.call_function @os.system("true") : () -> !fx.value
  fx.output(%x) : (tensor<2xf32>) -> ()
}

// -----

/// So is a class that is not one of PyTorch's.
fx.module @m @subprocess.Popen(args = "true")
func.func @refused_class(%x: tensor<2xf32>) -> !fx.value {
  // expected-error@+1 {{a file may not make a module of class 'subprocess.Popen'}}
  %r = fx.call_module @m(%x) : (tensor<2xf32>) -> !fx.value
  fx.output(%r) : (!fx.value) -> ()
}

// -----

/// Shapes that do not fit are PyTorch's own message, at the op.
func.func @shapes(%x: tensor<2x3xf32>, %y: tensor<4x5xf32>) -> !fx.value {
  // expected-error@+1 {{cannot be traced}}
  %r = fx.call_function @torch.matmul(%x, %y) : (tensor<2x3xf32>, tensor<4x5xf32>) -> !fx.value
  fx.output(%r) : (!fx.value) -> ()
}
