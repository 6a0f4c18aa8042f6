// RUN: fxc-opt %s --split-input-file --verify-diagnostics --pass-pipeline=lower-autocast

/// The region stands in the place of the call: there is no tuple of its results then.
func.func @whole(%x: tensor<2xf32>) -> tuple<tensor<2xf32>> {
  // expected-error@+1 {{do not correspond to those of its region}}
  %t = torch.higher_order.wrap_with_autocast("cpu", torch.bfloat16, true, false, @submod, %x) ({
  ^bb0(%a: tensor<2xf32>):
    fx.output((%a,)) : (tensor<2xf32>) -> ()
  }) : (tensor<2xf32>) -> tuple<tensor<2xf32>>
  func.return %t : tuple<tensor<2xf32>>
}

// -----

func.func @results(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{do not correspond to those of its region}}
  %t = torch.higher_order.wrap_with_autocast("cpu", torch.bfloat16, true, false, @submod, %x) ({
  ^bb0(%a: tensor<2xf32>):
    %b = torch.aten.to.dtype(%a, torch.bfloat16) : (tensor<2xf32>) -> tensor<2xbf16>
    fx.output((%b,)) : (tensor<2xbf16>) -> ()
  }) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %t : tensor<2xf32>
}

// -----

func.func @operands(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{passes 1 operands to a region that takes 2}}
  %t = torch.higher_order.wrap_with_autocast("cpu", torch.bfloat16, true, false, @submod, %x) ({
  ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>):
    fx.output((%a,)) : (tensor<2xf32>) -> ()
  }) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %t : tensor<2xf32>
}

// -----

func.func @state(%x: tensor<2xf32>, %on: !torch.bool<"">) -> tensor<2xf32> {
  // expected-error@+1 {{takes a kind of device and whether autocast is on there, as constants}}
  %t = torch.higher_order.wrap_with_autocast("cpu", torch.bfloat16, %on, false, @submod, %x) ({
  ^bb0(%a: tensor<2xf32>):
    fx.output((%a,)) : (tensor<2xf32>) -> ()
  }) : (!torch.bool<"">, tensor<2xf32>) -> tensor<2xf32>
  func.return %t : tensor<2xf32>
}

// -----

func.func @refused(%x: tensor<2xf32>) -> tensor<2xf32> {
  %t = torch.higher_order.wrap_with_autocast("cpu", torch.bfloat16, true, false, @submod, %x) ({
  ^bb0(%a: tensor<2xf32>):
    // expected-error@+1 {{cannot run under autocast}}
    %b = torch.aten.mm.default(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    fx.output((%b,)) : (tensor<2xf32>) -> ()
  }) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %t : tensor<2xf32>
}
