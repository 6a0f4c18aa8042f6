// RUN: fxc-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.higher_order.cond names 2 regions, but has 1}}
  torch.higher_order.cond(%x, @a, @b, (%x,)) ({
    fx.output() : () -> ()
  }) : (tensor<2xf32>, tensor<2xf32>) -> ()
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.higher_order.cond names 0 regions, but has 1}}
  torch.higher_order.cond() ({
    fx.output() : () -> ()
  }) : () -> ()
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  torch.higher_order.checkpoint(@a) ({
    // expected-error@+1 {{torch.aten.sin.default: ends a block of torch.higher_order.checkpoint and is not a terminator}}
    %y = torch.aten.sin.default(1) : () -> tensor<2xf32>
  }) : () -> ()
  func.return
}

// -----

/// A region sees nothing of what is around it, in either form.
func.func @f(%x: tensor<2xf32>) {
  torch.higher_order.checkpoint(@a) ({
    // expected-error@+1 {{%x is not defined}}
    fx.output(%x) : (tensor<2xf32>) -> ()
  }) : () -> ()
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  "torch.higher_order.checkpoint"() <{args = #fx.tuple<[#fx.region<"a">]>}> ({
    // expected-error@+1 {{fx.output: operand 0 does not dominate this use: %x is a block argument of another block}}
    "fx.output"(%x) <{args = #fx.tuple<[#fx.ssa]>}> : (tensor<2xf32>) -> ()
  }) : () -> ()
  func.return
}
