builtin.module {
  builtin.module @product attributes {pattern.level = "composite", pattern.keeps_gradients, torch.symbols = {s0 = {hint = 2 : i64, min = 2 : i64}, s1 = {hint = 3 : i64, min = 2 : i64}, s2 = {hint = 4 : i64, min = 2 : i64}}} {
    func.func @search(%arg0: tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>> {pattern.exclusive}, %arg1: tensor<?x?xf32, #torch.meta<sizes = ["s1", "s2"]>> {pattern.exclusive}, %arg2: tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>> {
      %matmul = torch.aten.matmul.default(%arg0, %arg1) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>, tensor<?x?xf32, #torch.meta<sizes = ["s1", "s2"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>
      %add = torch.aten.add.Tensor(%matmul, %arg2) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>, tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>
      func.return %add : tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>
    }
    func.func @replacement(%arg0: tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>, %arg1: tensor<?x?xf32, #torch.meta<sizes = ["s1", "s2"]>>, %arg2: tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>> {
      %addmm = torch.aten.addmm.default(%arg2, %arg0, %arg1) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>, tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>, tensor<?x?xf32, #torch.meta<sizes = ["s1", "s2"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>
      func.return %addmm : tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>
    }
  }
  builtin.module @product_1 attributes {pattern.level = "operators", pattern.keeps_gradients, torch.symbols = {s0 = {hint = 2 : i64, min = 2 : i64}, s1 = {hint = 3 : i64, min = 2 : i64}, s2 = {hint = 4 : i64, min = 2 : i64}}} {
    func.func @search(%arg0: tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>> {pattern.exclusive}, %arg1: tensor<?x?xf32, #torch.meta<sizes = ["s1", "s2"]>> {pattern.exclusive}, %arg2: tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>> {
      %mm = torch.aten.mm.default(%arg0, %arg1) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>, tensor<?x?xf32, #torch.meta<sizes = ["s1", "s2"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>
      %add_12 = torch.aten.add.Tensor(%mm, %arg2) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>, tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>
      func.return %add_12 : tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>
    }
    func.func @replacement(%arg0: tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>, %arg1: tensor<?x?xf32, #torch.meta<sizes = ["s1", "s2"]>>, %arg2: tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>> {
      %addmm = torch.aten.addmm.default(%arg2, %arg0, %arg1) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>, tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>, tensor<?x?xf32, #torch.meta<sizes = ["s1", "s2"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>
      func.return %addmm : tensor<?x?xf32, #torch.meta<sizes = ["s0", "s2"]>>
    }
  }
}
