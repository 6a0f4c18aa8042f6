// RUN: fxc-opt %s --split-input-file --verify-diagnostics

/// A declaration is known in its own file only.
torch.operator @mylib.scale.default "(Tensor x) -> Tensor" flags ""

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{Operation torch.mylib.scale.default is not registered}}
  %a = torch.mylib.scale.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

torch.operator @mylib.scale.default "(Tensor x) -> Tensor" flags ""
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.mylib.scale.default has no argument 'by'; it takes x}}
  %a = torch.mylib.scale.default(%x, by = 2.0) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

// expected-error@+1 {{torch.operator @mylib.scale.default: not an operator signature: Tensor}}
torch.operator @mylib.scale.default "Tensor" flags ""

// -----

// expected-error@+1 {{torch.operator @mylib.scale.default: unbalanced brackets: (Tensor x -> Tensor}}
torch.operator @mylib.scale.default "(Tensor x -> Tensor" flags ""

// -----

// expected-error@+1 {{torch.operator @mylib.scale.default: not an operator argument: x}}
torch.operator @mylib.scale.default "(x) -> Tensor" flags ""

// -----

// expected-error@+1 {{torch.operator @mylib.scale.default: not an operator argument: x}}
"torch.operator"() <{sym = "mylib.scale.default", signature = "(x) -> Tensor", flags = ""}> : () -> ()
