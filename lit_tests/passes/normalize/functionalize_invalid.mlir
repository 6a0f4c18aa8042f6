// RUN: fxc-opt %s --split-input-file --verify-diagnostics --pass-pipeline=functionalize

/// PyTorch's operators forbid a branch to write to what it is given.
func.func @operand(%p: tensor<i1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{a region of higher_order.cond writes to its argument %a}}
  %r = torch.higher_order.cond(%p, @then, @else, (%x,)) ({
  ^bb0(%a: tensor<2xf32>):
    %b = torch.aten.add_.Tensor(%a, 1) : (tensor<2xf32>) -> tensor<2xf32>
    %c = torch.aten.clone.default(%a) : (tensor<2xf32>) -> tensor<2xf32>
    fx.output((%c,)) : (tensor<2xf32>) -> ()
  }, {
  ^bb0(%a: tensor<2xf32>):
    %n = torch.aten.neg.default(%a) : (tensor<2xf32>) -> tensor<2xf32>
    fx.output((%n,)) : (tensor<2xf32>) -> ()
  }) : (tensor<i1>, tensor<2xf32>) -> (tensor<2xf32>)
  func.return %r : tensor<2xf32>
}

// -----

/// The memory of a host program is planned; its pipeline is run again by mistake.
// expected-error@+1 {{pass functionalize failed: @planned is a host program; run functionalize before convert-to-plan}}
func.func @planned(%x: tensor<2xf32>) -> tensor<2xf32> {
  %b = plan.alloc : tensor<2xf32>
  %r = torch.aten.neg.out(%x, out = %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %r : tensor<2xf32>
}

// -----

/// A trace would lose the marks of the operations.
// expected-error@+1 {{a joint graph writes only whole arguments, once each, at its end}}
func.func @joint(%x: tensor<2xf32>, %d: tensor<2xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %v = torch.aten.view.default(%x, [1, 2]) : (tensor<2xf32>) -> tensor<1x2xf32>
  %w = torch.aten.add_.Tensor(%v, 1) : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %y = torch.aten.neg.default(%x) {autodiff.recomputed} : (tensor<2xf32>) -> tensor<2xf32>
  fx.output([%y, %d]) : (tensor<2xf32>, tensor<2xf32>) -> ()
}

// -----

/// An operation after the copy reads a view of the written argument.
// expected-error@+1 {{a joint graph writes only whole arguments, once each, at its end}}
func.func @read_later(%x: tensor<2xf32>, %d: tensor<2xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %v = torch.aten.view.default(%x, [1, 2]) : (tensor<2xf32>) -> tensor<1x2xf32>
  %w = torch.aten.copy_.default(%x, %d) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %y = torch.aten.neg.default(%v) {autodiff.recomputed} : (tensor<1x2xf32>) -> tensor<1x2xf32>
  fx.output([%y, %d]) : (tensor<1x2xf32>, tensor<2xf32>) -> ()
}
