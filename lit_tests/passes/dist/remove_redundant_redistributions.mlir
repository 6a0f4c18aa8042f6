// RUN: fxc-opt %s --split-input-file --remove-redundant-redistributions | filecheck %s
// RUN: fxc-opt %s --split-input-file -p remove-redundant-redistributions,remove-redundant-redistributions | filecheck %s

/// A collective of one rank is a copy of its operand, of any kind. A wait for a wait is the first.
// CHECK-LABEL: func.func @one_rank
// CHECK-NEXT:    %y = torch.aten.clone.default(%x)
// CHECK-NEXT:    %b = torch.aten.clone.default(%x)
// CHECK-NEXT:    %c = torch.aten.clone.default(%x)
// CHECK-NEXT:    fx.output(%y, %b, %c)
dist.mesh @mesh "cpu" (dp = 1, tp = 2)
dist.group @dp "0" on @mesh(dp)
func.func @one_rank(%x: tensor<4xf32>) {
  %r = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %y = dist.wait %r : tensor<4xf32>
  %z = dist.wait %y : tensor<4xf32>
  %s, %t = dist.all_gather over @dp (%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %b = dist.wait %s : tensor<4xf32>
  %c = dist.wait %t : tensor<4xf32>
  fx.output(%z, %b, %c) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// What ranks got from a gather is equal on them: a broadcast, or a maximum over the same group, returns it. A sum does not,
/// nor is it equal on the ranks of another group.
// CHECK-LABEL: func.func @replicated
// CHECK:         %y = dist.wait %r
// CHECK-NEXT:    %b = torch.aten.clone.default(%y)
// CHECK-NEXT:    %m = torch.aten.clone.default(%y)
// CHECK-NEXT:    dist.all_reduce "sum" over @dp (%y)
// CHECK-NEXT:    dist.wait
// CHECK-NEXT:    dist.all_reduce "max" over @tp (%y)
dist.mesh @mesh "cpu" (dp = 2, tp = 2)
dist.group @dp "0" on @mesh(dp)
dist.group @tp "1" on @mesh(tp)
func.func @replicated(%x: tensor<4xf32>) {
  %r = dist.all_gather over @dp (%x) : (tensor<4xf32>) -> tensor<8xf32>
  %y = dist.wait %r : tensor<8xf32>
  %s = dist.broadcast 1 over @dp (%y) : (tensor<8xf32>) -> tensor<8xf32>
  %b = dist.wait %s : tensor<8xf32>
  %t = dist.all_reduce "max" over @dp (%y) : (tensor<8xf32>) -> tensor<8xf32>
  %m = dist.wait %t : tensor<8xf32>
  %u = dist.all_reduce "sum" over @dp (%y) : (tensor<8xf32>) -> tensor<8xf32>
  %n = dist.wait %u : tensor<8xf32>
  %v = dist.all_reduce "max" over @tp (%y) : (tensor<8xf32>) -> tensor<8xf32>
  %o = dist.wait %v : tensor<8xf32>
  fx.output(%b, %m, %n, %o) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> ()
}

// -----

/// The second of two equal collectives returns what the first did; not after a write, which may be to the operand.
// CHECK-LABEL: func.func @equal
// CHECK-NEXT:    dist.all_gather over @dp (%x)
// CHECK-NEXT:    %y = dist.wait
// CHECK-NEXT:    %z = torch.aten.clone.default(%y)
// CHECK-NEXT:    torch.aten.relu_.default
// CHECK-NEXT:    dist.all_gather over @dp (%x)
dist.group @dp "0" ranks [0, 1]
func.func @equal(%x: tensor<4xf32>) {
  %r = dist.all_gather over @dp (%x) : (tensor<4xf32>) -> tensor<8xf32>
  %y = dist.wait %r : tensor<8xf32>
  %s = dist.all_gather over @dp (%x) : (tensor<4xf32>) -> tensor<8xf32>
  %z = dist.wait %s : tensor<8xf32>
  %w = torch.aten.relu_.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %t = dist.all_gather over @dp (%x) : (tensor<4xf32>) -> tensor<8xf32>
  %v = dist.wait %t : tensor<8xf32>
  fx.output(%y, %z, %v) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> ()
}

// -----

/// The wait for the first stands after that for the second; another reduction is another collective.
// CHECK-LABEL: func.func @not_yet
// CHECK-COUNT-3: dist.all_reduce
dist.group @dp "0" ranks [0, 1]
func.func @not_yet(%x: tensor<4xf32>) {
  %r = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %s = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %m = dist.all_reduce "max" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = dist.wait %s : tensor<4xf32>
  %y = dist.wait %r : tensor<4xf32>
  %n = dist.wait %m : tensor<4xf32>
  fx.output(%y, %z, %n) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// A result with other strides is no copy of the operand.
// CHECK-LABEL: func.func @strides
// CHECK:         dist.all_reduce
dist.group @dp "0" ranks [0]
func.func @strides(%x: tensor<2x3xf32, #torch.meta<strides = [1, 2]>>) {
  %r = dist.all_reduce "sum" over @dp (%x) : (tensor<2x3xf32, #torch.meta<strides = [1, 2]>>) -> tensor<2x3xf32>
  %y = dist.wait %r : tensor<2x3xf32>
  fx.output(%y) : (tensor<2x3xf32>) -> ()
}
