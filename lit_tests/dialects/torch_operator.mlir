// RUN: fxc-opt %s --split-input-file --verify-diagnostics | fxc-opt --split-input-file | filecheck %s
// RUN: fxc-opt %s --split-input-file --verify-diagnostics --print-op-generic | fxc-opt --split-input-file | filecheck %s

/// An operator that PyTorch does not ship: its schema stands in the file, and its calls read and verify like any other.
// CHECK: torch.operator @mylib.scale.default "(Tensor x, float by, *, bool fast=False) -> Tensor" flags "p"
torch.operator @mylib.scale.default "(Tensor x, float by, *, bool fast=False) -> Tensor" flags "p"
// CHECK-NEXT: torch.operator @mylib.update_.default "(Tensor(a!) x) -> ()" flags "" {fx.note = "kept"}
torch.operator @mylib.update_.default "(Tensor(a!) x) -> ()" flags "" {fx.note = "kept"}
func.func @f(%x: tensor<2xf32>) {
  // CHECK: %a = torch.mylib.scale.default(%x, 2.0, fast = true) : (tensor<2xf32>) -> tensor<2xf32>
  %a = torch.mylib.scale.default(%x, 2.0, fast = true) : (tensor<2xf32>) -> tensor<2xf32>
  // CHECK-NEXT: %b = torch.mylib.update_.default(%x) : (tensor<2xf32>) -> !torch.none
  %b = torch.mylib.update_.default(%x) : (tensor<2xf32>) -> !torch.none
  func.return
}

// -----

/// The same operator may have another schema in another file.
torch.operator @mylib.scale.default "(Tensor x) -> (Tensor, Tensor)" flags ""
func.func @f(%x: tensor<2xf32>) {
  // CHECK: %a, %b = torch.mylib.scale.default(%x) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  %a, %b = torch.mylib.scale.default(%x) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  func.return
}
