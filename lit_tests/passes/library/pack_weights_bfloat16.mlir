// REQUIRES: onednn-bfloat16
// RUN: fxc-opt %s --split-input-file -p pack-weights{gain=1.0e30} | filecheck %s

/// In bfloat16 also activations that are not exact: nothing is rounded before them. With the approximation that is asked for.
// CHECK-LABEL: func.func @main
// CHECK:         torch.mkldnn._linear_pointwise.default(%x, {{%[0-9]+}}, none, "gelu", [], "tanh")
// CHECK:         torch.mkldnn._linear_pointwise.default(%x, {{%[0-9]+}}, none, "gelu", [], "none")
// CHECK:         torch.mkldnn._linear_pointwise.default(%x, {{%[0-9]+}}, none, "swish", [], "")
// CHECK-NOT:     torch.aten
func.func @main(%x: tensor<5x4xbf16> {fx.kind = "input"}, %w: tensor<3x4xbf16> {fx.kind = "parameter", fx.name = "w"}) {
  %1 = torch.aten.linear.default(%x, %w) : (tensor<5x4xbf16>, tensor<3x4xbf16>) -> tensor<5x3xbf16>
  %2 = torch.aten.gelu.default(%1, approximate = "tanh") : (tensor<5x3xbf16>) -> tensor<5x3xbf16>
  %3 = torch.aten.linear.default(%x, %w) : (tensor<5x4xbf16>, tensor<3x4xbf16>) -> tensor<5x3xbf16>
  %4 = torch.aten.gelu.default(%3) : (tensor<5x3xbf16>) -> tensor<5x3xbf16>
  %5 = torch.aten.linear.default(%x, %w) : (tensor<5x4xbf16>, tensor<3x4xbf16>) -> tensor<5x3xbf16>
  %6 = torch.aten.silu.default(%5) : (tensor<5x3xbf16>) -> tensor<5x3xbf16>
  fx.output((%2, %4, %6)) : (tensor<5x3xbf16>, tensor<5x3xbf16>, tensor<5x3xbf16>) -> ()
}
