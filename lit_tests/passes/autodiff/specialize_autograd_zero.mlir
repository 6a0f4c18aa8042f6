// RUN: fxc-opt %s --split-input-file --pass-pipeline=specialize-autograd-zero,dce | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=specialize-autograd-zero,dce,specialize-autograd-zero,dce | filecheck %s

/// The table of add: undefined, defined, unknown.
// CHECK-LABEL: func.func @add_uu
// CHECK-NEXT:    func.return %b
func.func @add_uu(%a: tensor<2xf32> {autodiff.undefined}, %b: tensor<2xf32> {autodiff.undefined}) -> tensor<2xf32> {
  %s = autodiff.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @add_ud
// CHECK-NEXT:    func.return %b
func.func @add_ud(%a: tensor<2xf32> {autodiff.undefined}, %b: tensor<2xf32> {autodiff.defined}) -> tensor<2xf32> {
  %s = autodiff.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @add_ux
// CHECK-NEXT:    func.return %b
func.func @add_ux(%a: tensor<2xf32> {autodiff.undefined}, %b: tensor<2xf32>) -> tensor<2xf32> {
  %s = autodiff.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @add_du
// CHECK-NEXT:    func.return %a
func.func @add_du(%a: tensor<2xf32> {autodiff.defined}, %b: tensor<2xf32> {autodiff.undefined}) -> tensor<2xf32> {
  %s = autodiff.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @add_dd
// CHECK-NEXT:    %s = torch.aten.add.Tensor(%a, %b)
// CHECK-NEXT:    func.return %s
func.func @add_dd(%a: tensor<2xf32> {autodiff.defined}, %b: tensor<2xf32> {autodiff.defined}) -> tensor<2xf32> {
  %s = autodiff.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @add_dx
// CHECK-NEXT:    %s = autodiff.add(%a, %b)
// CHECK-NEXT:    func.return %s
func.func @add_dx(%a: tensor<2xf32> {autodiff.defined}, %b: tensor<2xf32>) -> tensor<2xf32> {
  %s = autodiff.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @add_xu
// CHECK-NEXT:    func.return %a
func.func @add_xu(%a: tensor<2xf32>, %b: tensor<2xf32> {autodiff.undefined}) -> tensor<2xf32> {
  %s = autodiff.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @add_xd
// CHECK-NEXT:    %s = autodiff.add(%a, %b)
// CHECK-NEXT:    func.return %s
func.func @add_xd(%a: tensor<2xf32>, %b: tensor<2xf32> {autodiff.defined}) -> tensor<2xf32> {
  %s = autodiff.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @add_xx
// CHECK-NEXT:    %s = autodiff.add(%a, %b)
// CHECK-NEXT:    func.return %s
func.func @add_xx(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
  %s = autodiff.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}

// -----

/// An if on undefined gradients only is an undefined gradient.
// CHECK-LABEL: func.func @if_uu
// CHECK-NEXT:    %o = autodiff.zero
// CHECK-NEXT:    func.return %o
func.func @if_uu(%a: tensor<2xf32> {autodiff.undefined}, %b: tensor<2xf32> {autodiff.undefined}) -> tensor<2xf32> {
  %c = autodiff.any_nonzero(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> i1
  %o = scf.if %c -> (tensor<2xf32>) {
    %s = autodiff.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    scf.yield %s : tensor<2xf32>
  } else {
    %z = autodiff.zero : tensor<2xf32>
    scf.yield %z : tensor<2xf32>
  }
  func.return %o : tensor<2xf32>
}

// -----

/// One of which nothing is known keeps it; in its body it is defined.
// CHECK-LABEL: func.func @if_ux
// CHECK-NEXT:    %c = autodiff.any_nonzero(%a, %b)
// CHECK-NEXT:    %o = scf.if %c
// CHECK-NEXT:      scf.yield %b
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %z = autodiff.zero
// CHECK-NEXT:      scf.yield %z
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %o
func.func @if_ux(%a: tensor<2xf32> {autodiff.undefined}, %b: tensor<2xf32>) -> tensor<2xf32> {
  %c = autodiff.any_nonzero(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> i1
  %o = scf.if %c -> (tensor<2xf32>) {
    %s = autodiff.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    scf.yield %s : tensor<2xf32>
  } else {
    %z = autodiff.zero : tensor<2xf32>
    scf.yield %z : tensor<2xf32>
  }
  func.return %o : tensor<2xf32>
}

// -----

/// Two of which nothing is known: in the body neither is known to be there.
// CHECK-LABEL: func.func @if_xx
// CHECK-NEXT:    %c = autodiff.any_nonzero(%a, %b)
// CHECK-NEXT:    %o = scf.if %c
// CHECK-NEXT:      %s = autodiff.add(%a, %b)
// CHECK-NEXT:      scf.yield %s
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %z = autodiff.zero
// CHECK-NEXT:      scf.yield %z
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %o
func.func @if_xx(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
  %c = autodiff.any_nonzero(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> i1
  %o = scf.if %c -> (tensor<2xf32>) {
    %s = autodiff.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    scf.yield %s : tensor<2xf32>
  } else {
    %z = autodiff.zero : tensor<2xf32>
    scf.yield %z : tensor<2xf32>
  }
  func.return %o : tensor<2xf32>
}

// -----

/// The body of an if on a defined one moves out, and is specialized too.
// CHECK-LABEL: func.func @if_dd
// CHECK-NEXT:    %s = torch.aten.add.Tensor(%a, %b)
// CHECK-NEXT:    func.return %s
func.func @if_dd(%a: tensor<2xf32> {autodiff.defined}, %b: tensor<2xf32> {autodiff.defined}) -> tensor<2xf32> {
  %c = autodiff.any_nonzero(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> i1
  %o = scf.if %c -> (tensor<2xf32>) {
    %s = autodiff.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    scf.yield %s : tensor<2xf32>
  } else {
    %z = autodiff.zero : tensor<2xf32>
    scf.yield %z : tensor<2xf32>
  }
  func.return %o : tensor<2xf32>
}

// -----

/// It is enough that one is defined: the other may still be undefined, and add stays.
// CHECK-LABEL: func.func @if_dx
// CHECK-NEXT:    %s = autodiff.add(%a, %b)
// CHECK-NEXT:    func.return %s
func.func @if_dx(%a: tensor<2xf32> {autodiff.defined}, %b: tensor<2xf32>) -> tensor<2xf32> {
  %c = autodiff.any_nonzero(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> i1
  %o = scf.if %c -> (tensor<2xf32>) {
    %s = autodiff.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    scf.yield %s : tensor<2xf32>
  } else {
    %z = autodiff.zero : tensor<2xf32>
    scf.yield %z : tensor<2xf32>
  }
  func.return %o : tensor<2xf32>
}

// -----

/// A tensor of zeros is not an undefined gradient; what a torch op gives is defined.
// CHECK-LABEL: func.func @zeros_are_defined
// CHECK-NEXT:    %z = torch.aten.zeros.default([2])
// CHECK-NEXT:    %s = torch.aten.add.Tensor(%z, %a)
// CHECK-NEXT:    func.return %s
func.func @zeros_are_defined(%a: tensor<2xf32> {autodiff.defined}) -> tensor<2xf32> {
  %z = torch.aten.zeros.default([2]) : () -> tensor<2xf32>
  %s = autodiff.add(%z, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}

// -----

/// What comes out of a call is unknown.
// CHECK-LABEL: func.func @call
// CHECK:         %s = autodiff.add(%c, %a)
func.func private @g(%a: tensor<2xf32>) -> tensor<2xf32>
func.func @call(%a: tensor<2xf32> {autodiff.defined}) -> tensor<2xf32> {
  %c = func.call @g(%a) : (tensor<2xf32>) -> tensor<2xf32>
  %s = autodiff.add(%c, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}

// -----

/// A sum to no size is the gradient, in an if that stays too; one to a size stays where nothing is known.
// CHECK-LABEL: func.func @sum_to_none
// CHECK-NEXT:    %c = autodiff.any_nonzero(%a, %b)
// CHECK-NEXT:    %o = scf.if %c
// CHECK-NEXT:      %t = autodiff.sum_to_size(%b, [2])
// CHECK-NEXT:      %s = autodiff.add(%a, %t)
// CHECK-NEXT:      scf.yield %s
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %z = autodiff.zero
// CHECK-NEXT:      scf.yield %z
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %o
func.func @sum_to_none(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
  %c = autodiff.any_nonzero(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> i1
  %o = scf.if %c -> (tensor<2xf32>) {
    %r = autodiff.sum_to_size(%a, none) : (tensor<2xf32>) -> tensor<2xf32>
    %t = autodiff.sum_to_size(%b, [2]) : (tensor<2xf32>) -> tensor<2xf32>
    %s = autodiff.add(%r, %t) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    scf.yield %s : tensor<2xf32>
  } else {
    %z = autodiff.zero : tensor<2xf32>
    scf.yield %z : tensor<2xf32>
  }
  func.return %o : tensor<2xf32>
}

// -----

/// Of a defined gradient it is an op of torch.
// CHECK-LABEL: func.func @sum_of_defined
// CHECK-NEXT:    %r = torch.aten.sum_to_size.default(%a, [2])
// CHECK-NEXT:    func.return %r
func.func @sum_of_defined(%a: tensor<2xf32> {autodiff.defined}) -> tensor<2xf32> {
  %r = autodiff.sum_to_size(%a, [2]) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %r : tensor<2xf32>
}

// -----

/// Zeros are made only where they must be.
// CHECK-LABEL: func.func @materialize
// CHECK-NEXT:    %q = torch.aten.zeros.default([2], dtype = torch.float32, device = device("cpu"))
// CHECK-NEXT:    %r = autodiff.materialize(%x, [2])
// CHECK-NEXT:    %s = torch.aten.add.Tensor(%d, %q)
// CHECK-NEXT:    %t = torch.aten.add.Tensor(%s, %r)
// CHECK-NEXT:    func.return %t
func.func @materialize(%d: tensor<2xf32> {autodiff.defined}, %u: tensor<2xf32> {autodiff.undefined}, %x: tensor<2xf32>) -> tensor<2xf32> {
  %p = autodiff.materialize(%d, [2]) : (tensor<2xf32>) -> tensor<2xf32>
  %q = autodiff.materialize(%u, [2]) : (tensor<2xf32>) -> tensor<2xf32>
  %r = autodiff.materialize(%x, [2]) : (tensor<2xf32>) -> tensor<2xf32>
  %s = autodiff.add(%p, %q) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %t = autodiff.add(%s, %r) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %t : tensor<2xf32>
}
