// RUN: fxc-opt %s --split-input-file --pass-pipeline=check-inplace | filecheck %s

/// PyTorch's own in-place operators are known, and calls of which nothing says that they write pass; nothing changes.
// CHECK-LABEL: func.func @known
// CHECK-NEXT:    %a = torch.aten.add_.Tensor(%x, 1)
// CHECK-NEXT:    %b = fx.call_method @__add__(%a, 1)
// CHECK-NEXT:    %c = fx.call_function @torch.nn.functional.relu(%b, inplace = false, out = none)
// CHECK-NEXT:    %d = torch.mylib.scale.default(%c, 2.0)
// CHECK-NEXT:    %e = fx.call_module @act(%d)
torch.operator @mylib.scale.default "(Tensor x, float by) -> Tensor" flags ""
fx.module @act @torch.nn.modules.activation.ReLU(training = false, inplace = false)
func.func @known(%x: tensor<4xf32>) {
  %a = torch.aten.add_.Tensor(%x, 1) : (tensor<4xf32>) -> tensor<4xf32>
  %b = fx.call_method @__add__(%a, 1) : (tensor<4xf32>) -> tensor<4xf32>
  %c = fx.call_function @torch.nn.functional.relu(%b, inplace = false, out = none) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.mylib.scale.default(%c, 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  %e = fx.call_module @act(%d) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%e) : (tensor<4xf32>) -> ()
}

// -----

/// Python's `and_`, `or_` and `not_` write nothing, though their names end as those of operators in place do.
// CHECK-LABEL: func.func @python
// CHECK-NEXT:    %a = fx.call_function @operator.and_(%n, 3)
// CHECK-NEXT:    %b = fx.call_function @operator.not_(%a)
func.func @python(%n: !torch.int) {
  %a = fx.call_function @operator.and_(%n, 3) : (!torch.int) -> !torch.int
  %b = fx.call_function @operator.not_(%a) : (!torch.int) -> !torch.bool
  fx.output(%b) : (!torch.bool) -> ()
}
