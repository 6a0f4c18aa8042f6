// RUN: fxc-opt %s --split-input-file | filecheck %s
// RUN: fxc-opt %s --split-input-file | fxc-opt --split-input-file | filecheck %s
// RUN: fxc-opt %s --split-input-file --print-op-generic | fxc-opt --split-input-file | filecheck %s

/// The body reads what is around it.
// CHECK-LABEL: func.func @one
// CHECK-NEXT:    %u = fusion.group ({
// CHECK-NEXT:      %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT:      %v = torch.aten.mul.Tensor(%t, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT:      fusion.yield %v : tensor<2xf32>
// CHECK-NEXT:    }) -> tensor<2xf32>
// CHECK-NEXT:    fx.output
func.func @one(%x: tensor<2xf32>) {
  %u = fusion.group ({
    %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
    %v = torch.aten.mul.Tensor(%t, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    fusion.yield %v : tensor<2xf32>
  }) -> tensor<2xf32>
  fx.output(%u) : (tensor<2xf32>) -> ()
}

// -----

/// Several results, of several types, and attributes.
// CHECK-LABEL: func.func @two
// CHECK:         fusion.yield %t, %v : tensor<2xf32>, tensor<2xi1, #torch.meta<device = "cuda:0">>
// CHECK-NEXT:    }) {kernel = "k"} -> (tensor<2xf32>, tensor<2xi1, #torch.meta<device = "cuda:0">>)
func.func @two(%x: tensor<2xf32>, %y: tensor<2xf32, #torch.meta<device = "cuda:0">>) {
  %p, %q = fusion.group ({
    %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
    %v = torch.aten.isnan.default(%y) : (tensor<2xf32, #torch.meta<device = "cuda:0">>) -> tensor<2xi1, #torch.meta<device = "cuda:0">>
    fusion.yield %t, %v : tensor<2xf32>, tensor<2xi1, #torch.meta<device = "cuda:0">>
  }) {kernel = "k"} -> (tensor<2xf32>, tensor<2xi1, #torch.meta<device = "cuda:0">>)
  fx.output((%p, %q)) : (tensor<2xf32>, tensor<2xi1, #torch.meta<device = "cuda:0">>) -> ()
}

// -----

/// No results.
// CHECK-LABEL: func.func @none
// CHECK:         fusion.yield
// CHECK-NEXT:    }) -> ()
func.func @none(%x: tensor<2xf32>) {
  fusion.group ({
    %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
    fusion.yield
  }) -> ()
  fx.output(%x) : (tensor<2xf32>) -> ()
}
