builtin.module attributes {pattern.level = "composite", pattern.keeps_gradients, torch.symbols = {s0 = {hint = 2 : i64, min = 2 : i64}, s1 = {hint = 3 : i64, min = 2 : i64}}} {
  func.func @search(%arg0: tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, tensor<?xf32, #torch.meta<sizes = ["s0"]>>) {
    %amax = torch.aten.amax.default(%arg0, [-1]) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
    %amin = torch.aten.amin.default(%arg0, [-1]) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
    func.return %amax, %amin : tensor<?xf32, #torch.meta<sizes = ["s0"]>>, tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  }
  func.func @replacement(%arg0: tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, tensor<?xf32, #torch.meta<sizes = ["s0"]>>) {
    %getitem, %getitem_1 = torch.aten.aminmax.default(%arg0, dim = -1) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, tensor<?xf32, #torch.meta<sizes = ["s0"]>>)
    func.return %getitem_1, %getitem : tensor<?xf32, #torch.meta<sizes = ["s0"]>>, tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  }
}
