builtin.module attributes {pattern.level = "composite", pattern.keeps_gradients, torch.symbols = {s0 = {hint = 2 : i64, min = 2 : i64}, s1 = {hint = 3 : i64, min = 2 : i64}}} {
  func.func @search(%arg0: tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>> {
    %neg = torch.aten.neg.default(%arg0) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
    %neg_1 = torch.aten.neg.default(%neg) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
    func.return %neg_1 : tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
  }
  func.func @replacement(%arg0: tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>> {
    func.return %arg0 : tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
  }
}
