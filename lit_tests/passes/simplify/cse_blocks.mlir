// RUN: fxc-opt %s --split-input-file --pass-pipeline=cse | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=cse,cse | filecheck %s

/// A block may use what its dominators computed; the two sides of a branch do not share.
// CHECK-LABEL: func.func @blocks
// CHECK-NEXT:    %a = torch.aten.relu.default(%x)
// CHECK-NEXT:    cf.cond_br
// CHECK-NEXT:  ^{{.*}}:
// CHECK-NEXT:    %c = torch.aten.exp.default(%a)
// CHECK-NEXT:    cf.br
// CHECK-NEXT:  ^{{.*}}:
// CHECK-NEXT:    %d = torch.aten.exp.default(%a)
// CHECK-NEXT:    cf.br
// CHECK-NEXT:  ^{{.*}}(%m: tensor<4xf32>):
// CHECK-NEXT:    %f = torch.aten.exp.default(%a)
// CHECK-NEXT:    torch.aten.stack.default([%a, %f, %m])
func.func @blocks(%p: i1, %x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  cf.cond_br %p, ^left, ^right
^left:
  %b = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.exp.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  cf.br ^end(%c : tensor<4xf32>)
^right:
  %d = torch.aten.exp.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  cf.br ^end(%d : tensor<4xf32>)
^end(%m: tensor<4xf32>):
  %e = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %f = torch.aten.exp.default(%e) : (tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.stack.default([%e, %f, %m]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  fx.output(%s) : (tensor<3x4xf32>) -> ()
}

// -----

/// A nested region of several blocks reads what was computed before it, a write in one of its blocks comes before the others,
/// also where its block is the last in the text.
// CHECK-LABEL: func.func @nested_blocks
// CHECK-NEXT:    %x = torch.aten.exp.default(%y)
// CHECK-NEXT:    %k = torch.aten.neg.default(%y)
// CHECK-NEXT:    %a = torch.aten.relu.default(%x)
// CHECK-NEXT:    scf.execute_region
// CHECK-NEXT:      %b = torch.aten.relu.default(%x)
// CHECK-NEXT:      cf.cond_br
// CHECK-NEXT:    ^{{.*}}:
// CHECK-NEXT:      %c = torch.aten.relu.default(%x)
// CHECK-NEXT:      torch.aten.stack.default([%a, %b, %c, %c, %k])
// CHECK:         ^{{.*}}:
// CHECK-NEXT:      torch.aten.zero_.default(%x)
func.func @nested_blocks(%p: i1, %y: tensor<4xf32>) {
  %x = torch.aten.exp.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %k = torch.aten.neg.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %r = scf.execute_region -> tensor<5x4xf32> {
    %b = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    cf.cond_br %p, ^read, ^write
  ^read:
    %c = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %d = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %l = torch.aten.neg.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
    %s = torch.aten.stack.default([%a, %b, %c, %d, %l]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<5x4xf32>
    scf.yield %s : tensor<5x4xf32>
  ^write:
    %w = torch.aten.zero_.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    cf.br ^read
  }
  fx.output(%r) : (tensor<5x4xf32>) -> ()
}
