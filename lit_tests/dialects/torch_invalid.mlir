// RUN: fxc-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{Operation torch.aten.nothing.default is not registered}}
  %a = torch.aten.nothing.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.relu.default takes 1 positional arguments}}
  %a = torch.aten.relu.default(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{a positional argument follows a keyword}}
  %a = torch.aten.add.Tensor(self = %x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.add.Tensor has no argument 'scale'; it takes self, other, alpha}}
  %a = torch.aten.add.Tensor(%x, %x, scale = 1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.add.Tensor: argument 'self' is given twice}}
  %a = torch.aten.add.Tensor(%x, self = %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.add.Tensor needs the argument 'other' (Tensor)}}
  %a = torch.aten.add.Tensor(%x, alpha = 1) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.topk.default returns 2 values, but has 3 results}}
  %a, %b, %c = torch.aten.topk.default(%x, 1) : (tensor<2xf32>) -> (tensor<1xf32>, tensor<1xi64>, tensor<1xi64>)
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.topk.default returns 2 values, but has 1 results}}
  %a = torch.aten.topk.default(%x, 1) : (tensor<2xf32>) -> tensor<1xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.relu.default has 1 operands too many}}
  %a = "torch.aten.relu.default"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.cat.default has 1 operands too few}}
  %a = "torch.aten.cat.default"(%x) <{tensors = [#fx.ssa, #fx.ssa]}> : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.add.Tensor has no argument 'scale'; it takes self, other, alpha}}
  %a = "torch.aten.add.Tensor"(%x, %x) <{scale = 1 : i64}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.relu.default: 'keywords' must be an array of strings}}
  %a = "torch.aten.relu.default"(%x) <{keywords = 1 : i64}> : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.relu.default: 'keywords' must be an array of strings}}
  %a = "torch.aten.relu.default"(%x) <{keywords = [1 : i64]}> : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.add.Tensor: 'keywords' names an argument that is not passed}}
  %a = "torch.aten.add.Tensor"(%x, %x) <{keywords = ["alpha"]}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.add.Tensor: a positional argument is missing before 'other'}}
  %a = "torch.aten.add.Tensor"(%x, %x) <{keywords = ["self"]}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.add.Tensor: 'keywords' names an argument twice}}
  %a = "torch.aten.add.Tensor"(%x, %x) <{keywords = ["other", "other"]}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.add.Tensor: 'alpha' is an argument and cannot be a discardable attribute too}}
  %a = torch.aten.add.Tensor(%x, %x) {alpha = 2} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

// expected-error@+1 {{expected one of sizes, strides, device, layout, each once; got shape}}
func.func private @f(tensor<2xf32, #torch.meta<shape = [2]>>)

// -----

// expected-error@+1 {{expected one of sizes, strides, device, layout, each once; got device}}
func.func private @f(tensor<2xf32, #torch.meta<device = "cuda", device = "cuda">>)

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.add.Tensor: argument 'alpha' must be of type Scalar}}
  %a = torch.aten.add.Tensor(%x, %x, alpha = "x") : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.sum.dim_IntList: argument 'dim' must be of type int[1]?}}
  %a = torch.aten.sum.dim_IntList(%x, [0, 0.5]) : (tensor<2xf32>) -> tensor<f32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.view.default: argument 'size' must be of type SymInt[]}}
  %a = torch.aten.view.default(%x, 2) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{torch.aten.softmax.int: argument 'dim' must be of type int}}
  %a = torch.aten.softmax.int(%x, none) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}
