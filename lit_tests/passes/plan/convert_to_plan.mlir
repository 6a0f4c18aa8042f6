// RUN: fxc-opt %s --split-input-file --pass-pipeline=convert-to-plan | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=convert-to-plan,convert-to-plan | filecheck %s

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}, %z: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>} {
  tile.return
}

/// A launch writes into a buffer for each result; what nothing reads any more is released. What may update its operand and
/// leaves the function stays.
// CHECK-LABEL: func.func @launch
// CHECK-NEXT:    %y = plan.alloc : tensor<4xf32>
// CHECK-NEXT:    %z = plan.alloc : tensor<4xf32>
// CHECK-NEXT:    plan.launch @k(%x) outs(%y, %z) : (tensor<4xf32>) outs(tensor<4xf32>, tensor<4xf32>)
// CHECK-NEXT:    %s = torch.aten.add.Tensor(%y, %x)
// CHECK-NEXT:    plan.free %y : tensor<4xf32>
// CHECK-NEXT:    fx.output((%s, %z))
func.func @launch(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y, %z = tile.launch @k(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %s = torch.aten.add.Tensor(%y, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%s, %z)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// An operator with several results writes into several buffers.
// CHECK-LABEL: func.func @several
// CHECK-NEXT:    %v = plan.alloc : tensor<4x1xf32>
// CHECK-NEXT:    %i = plan.alloc : tensor<4x1xi64>
// CHECK-NEXT:    %0, %1 = torch.aten.max.dim_max(%x, 1, true, max = %v, max_values = %i)
// CHECK-NEXT:    %s = plan.alloc : tensor<4x1xf32>
// CHECK-NEXT:    %2 = torch.aten.gather.out(%x, 1, %i, out = %s)
// CHECK-NEXT:    plan.free %i
// CHECK-NEXT:    %t = torch.aten.exp.default(%v)
// CHECK-NEXT:    plan.free %v
func.func @several(%x: tensor<4x8xf32>) -> (tensor<4x1xf32>, tensor<4x1xf32>) {
  %v, %i = torch.aten.max.dim(%x, 1, keepdim = true) : (tensor<4x8xf32>) -> (tensor<4x1xf32>, tensor<4x1xi64>)
  %s = torch.aten.gather.default(%x, 1, %i) : (tensor<4x8xf32>, tensor<4x1xi64>) -> tensor<4x1xf32>
  %t = torch.aten.exp.default(%v) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  fx.output((%s, %t)) : (tensor<4x1xf32>, tensor<4x1xf32>) -> ()
}

// -----

/// What is returned is written into a buffer, too. Calls that go on allocating: of what PyTorch would compute elsewhere and
/// copy; random ones; of sizes that only data tells; views.
// CHECK-LABEL: func.func @own_memory
// CHECK-NEXT:    %a = plan.alloc : tensor<4x4xf32>
// CHECK-NEXT:    %0 = torch.aten.mm.out(%x, %x, out = %a)
// CHECK-NEXT:    %b = torch.aten.view.default(%a, [16])
// CHECK-NEXT:    plan.free %a
// CHECK-NEXT:    %c = torch.aten.relu.default(%x)
// CHECK-NEXT:    %d = torch.aten.bernoulli.default(%c)
// CHECK-NEXT:    plan.free %c
// CHECK-NEXT:    %e = torch.aten.nonzero.default(%d)
// CHECK-NEXT:    plan.free %d
// CHECK-NEXT:    %n = torch.aten.sym_size.int(%e, 0)
// CHECK-NEXT:    %f = torch.aten.sum.default(%e)
// CHECK-NEXT:    plan.free %e
// CHECK-NEXT:    fx.output((%b, %f, %n))
func.func @own_memory(%x: tensor<4x4xf32>) -> (tensor<16xf32>, tensor<i64>, !torch.int) {
  %a = torch.aten.mm.default(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = torch.aten.view.default(%a, [16]) : (tensor<4x4xf32>) -> tensor<16xf32>
  %c = torch.aten.relu.default(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = torch.aten.bernoulli.default(%c) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = torch.aten.nonzero.default(%d) : (tensor<4x4xf32>) -> tensor<?x2xi64, #torch.meta<strides = [1, ""]>>
  %n = torch.aten.sym_size.int(%e, 0) : (tensor<?x2xi64, #torch.meta<strides = [1, ""]>>) -> !torch.int
  %f = torch.aten.sum.default(%e) : (tensor<?x2xi64, #torch.meta<strides = [1, ""]>>) -> tensor<i64>
  fx.output((%b, %f, %n)) : (tensor<16xf32>, tensor<i64>, !torch.int) -> ()
}

// -----

/// The new value of an argument is written back at the end, and a result that it is becomes the argument.
// CHECK-LABEL: func.func @write_back(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
// CHECK-NEXT:    %n = plan.alloc : tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = torch.aten.add.out(%x, %y, out = %n)
// CHECK-NEXT:    %s = torch.aten.sum.default(%x)
// CHECK-NEXT:    %{{.*}} = torch.aten.copy_.default(%x, %n)
// CHECK-NEXT:    plan.free %n
// CHECK-NEXT:    fx.output((%x, %s))
func.func @write_back(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32> {fx.mutates = 0}, tensor<4xf32>, tensor<f32>) {
  %n = torch.aten.add.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.sum.default(%x) : (tensor<4xf32>) -> tensor<f32>
  fx.output((%n, %n, %s)) : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> ()
}

// -----

/// Two arguments that are exchanged, and a result that is the old value of one, in a view: copies before the first write.
// CHECK-LABEL: func.func @exchange
// CHECK-NEXT:    %v = torch.aten.view.default(%x, [2, 2])
// CHECK-NEXT:    %{{.*}} = torch.aten.clone.default(%y)
// CHECK-NEXT:    %{{.*}} = torch.aten.clone.default(%x)
// CHECK-NEXT:    %{{.*}} = torch.aten.clone.default(%v)
// CHECK-NEXT:    plan.free %v
// CHECK-NEXT:    %{{.*}} = torch.aten.copy_.default(%x, %y_1)
// CHECK-NEXT:    plan.free %y_1
// CHECK-NEXT:    %{{.*}} = torch.aten.copy_.default(%y, %x_1)
// CHECK-NEXT:    plan.free %x_1
// CHECK-NEXT:    func.return %v_1 : tensor<2x2xf32>
func.func @exchange(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32> {fx.mutates = 0}, tensor<4xf32> {fx.mutates = 1}, tensor<2x2xf32>) {
  %v = torch.aten.view.default(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  func.return %y, %x, %v : tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>
}

// -----

/// An argument that keeps its value is not copied to itself.
// CHECK-LABEL: func.func @unchanged
// CHECK-NEXT:    fx.output(())
func.func @unchanged(%x: tensor<4xf32>) -> (tensor<4xf32> {fx.mutates = 0}) {
  fx.output((%x,)) : (tensor<4xf32>) -> ()
}

// -----

/// A result of several that nothing reads is released at once, and a use in a region counts.
// CHECK-LABEL: func.func @regions
// CHECK:         %a, %b, %c = torch.aten.native_layer_norm.default
// CHECK-NEXT:    plan.free %b, %c
// CHECK-NEXT:    %g = fusion.group
// CHECK:         }) -> tensor<4xf32>
// CHECK-NEXT:    plan.free %a
func.func @regions(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a, %b, %c = torch.aten.native_layer_norm.default(%x, [4], none, none, 1.000000e-05) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<1xf32>, tensor<1xf32>)
  %g = fusion.group ({
    %e = torch.aten.exp.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %e : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output(%g) : (tensor<4xf32>) -> ()
}

// -----

/// Functions that autograd runs or looks into stay as they are.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    autodiff.subgraph
// CHECK-LABEL: func.func private @f
// CHECK-NEXT:    torch.aten.mm.default
// CHECK-LABEL: func.func @marked
// CHECK-NEXT:    torch.aten.mm.default
func.func @main(%x: tensor<4x4xf32>) -> tensor<f32> {
  %y = autodiff.subgraph @f(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = torch.aten.sum.default(%y) : (tensor<4x4xf32>) -> tensor<f32>
  fx.output(%s) : (tensor<f32>) -> ()
}
func.func private @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = torch.aten.mm.default(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = torch.aten.mm.default(%y, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %z : tensor<4x4xf32>
}
func.func @marked(%x: tensor<4x4xf32>) -> tensor<f32> {
  %y = torch.aten.mm.default(%x, %x) {requires_grad = [true]} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = torch.aten.sum.default(%y) : (tensor<4x4xf32>) -> tensor<f32>
  fx.output(%s) : (tensor<f32>) -> ()
}

// -----

/// Functions of several blocks stay as they are.
// CHECK-LABEL: func.func @blocks
// CHECK-NEXT:    torch.aten.mm.default
func.func @blocks(%x: tensor<4x4xf32>, %p: i1) -> tensor<f32> {
  %y = torch.aten.mm.default(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = torch.aten.sum.default(%y) : (tensor<4x4xf32>) -> tensor<f32>
  cf.br ^bb1(%s : tensor<f32>)
^bb1(%t: tensor<f32>):
  func.return %t : tensor<f32>
}

// -----

/// A function that takes its arguments in a list releases them, but not what it returns.
// CHECK-LABEL: func.func @boxed
// CHECK-NEXT:    %m = plan.alloc : tensor<4x4xf32>
// CHECK-NEXT:    %0 = torch.aten.mm.out(%x, %y, out = %m)
// CHECK-NEXT:    plan.free %y : tensor<4x4xf32>
// CHECK-NEXT:    %s = torch.aten.sum.default(%m)
// CHECK-NEXT:    func.return %m, %s, %x
func.func @boxed(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<f32>, tensor<4x4xf32>) attributes {plan.boxed} {
  %m = torch.aten.mm.default(%x, %y) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = torch.aten.sum.default(%m) : (tensor<4x4xf32>) -> tensor<f32>
  func.return %m, %s, %x : tensor<4x4xf32>, tensor<f32>, tensor<4x4xf32>
}

// -----

/// A function with operations of dist is left, and runs as an FX graph: a release would read a result before its wait.
// CHECK-LABEL: func.func @collectives
// CHECK-NOT:     plan.
dist.group @dp "0" ranks [0, 1]
func.func @collectives(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %y = dist.wait %r : tensor<4xf32>
  fx.output(%y) : (tensor<4xf32>) -> ()
}
