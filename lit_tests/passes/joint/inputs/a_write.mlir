func.func @search(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = torch.aten.relu_.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}
func.func @replacement(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = torch.aten.relu.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}
