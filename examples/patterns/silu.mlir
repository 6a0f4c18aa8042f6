builtin.module attributes {pattern.level = "composite", pattern.keeps_gradients, torch.symbols = {s0 = {hint = 2 : i64, min = 2 : i64}, s1 = {hint = 3 : i64, min = 2 : i64}}} {
  func.func @search(%arg0: tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>> {
    %sigmoid = torch.aten.sigmoid.default(%arg0) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
    %mul = torch.aten.mul.Tensor(%arg0, %sigmoid) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>, tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
    func.return %mul : tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
  }
  func.func @replacement(%arg0: tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>> {
    %silu = torch.aten.silu.default(%arg0) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
    func.return %silu : tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
  }
}
