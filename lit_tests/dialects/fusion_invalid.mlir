// RUN: fxc-opt %s --split-input-file --verify-diagnostics

func.func @arguments(%x: tensor<2xf32>) {
  // expected-error@+1 {{fusion.group: the body takes no arguments, it reads the values around it}}
  %u = fusion.group ({
  ^bb0(%y: tensor<2xf32>):
    %t = torch.aten.exp.default(%y) : (tensor<2xf32>) -> tensor<2xf32>
    fusion.yield %t : tensor<2xf32>
  }) -> tensor<2xf32>
  fx.output(%u) : (tensor<2xf32>) -> ()
}

// -----

func.func @types(%x: tensor<2xf32>) {
  // expected-error@+1 {{fusion.group: the body must end in a fusion.yield of the result types}}
  %u = fusion.group ({
    %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
    fusion.yield %t : tensor<2xf32>
  }) -> tensor<3xf32>
  fx.output(%u) : (tensor<3xf32>) -> ()
}

// -----

func.func @end(%x: tensor<2xf32>) {
  // expected-error@+1 {{fusion.group: the body must end in a fusion.yield of the result types}}
  %u = fusion.group ({
    %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
    autodiff.yield %t : tensor<2xf32>
  }) -> tensor<2xf32>
  fx.output(%u) : (tensor<2xf32>) -> ()
}

// -----

func.func @outer(%x: tensor<2xf32>) {
  // expected-error@+1 {{fusion.group: the body yields values that it makes, not those around it}}
  %u = fusion.group ({
    fusion.yield %x : tensor<2xf32>
  }) -> tensor<2xf32>
  fx.output(%u) : (tensor<2xf32>) -> ()
}

// -----

func.func @parent(%x: tensor<2xf32>) {
  // expected-error@+1 {{'fusion.yield' expects parent op 'fusion.group'}}
  fusion.yield %x : tensor<2xf32>
}
