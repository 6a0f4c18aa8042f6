// RUN: fxc-opt %s | fxc-opt | filecheck %s
// RUN: fxc-opt %s --print-op-generic | fxc-opt --print-op-generic | filecheck %s --check-prefix=GENERIC

/// Graph arguments are regions; a region is named where it is passed. Names in a region may repeat those around it.
// CHECK-LABEL: func.func @cond
func.func @cond(%p: tensor<i1>, %x: tensor<2xf32>) {
  // CHECK-NEXT: %r = torch.higher_order.cond(%p, @true_graph_0, @false_graph_0, (%x,)) ({
  // CHECK-NEXT: ^bb0(%x: tensor<2xf32>):
  // CHECK-NEXT:   %y = torch.aten.sin.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  // CHECK-NEXT:   fx.output((%y,)) : (tensor<2xf32>) -> ()
  // CHECK-NEXT: }, {
  // CHECK-NEXT: ^bb0(%x: tensor<2xf32>):
  // CHECK-NEXT:   fx.output((%x,)) : (tensor<2xf32>) -> ()
  // CHECK-NEXT: }) {fx.note = "kept"} : (tensor<i1>, tensor<2xf32>) -> tuple<tensor<2xf32>>
  // GENERIC: "torch.higher_order.cond"(%p, %x) <{args = #fx.tuple<[#fx.ssa, #fx.region<"true_graph_0">, #fx.region<"false_graph_0">, #fx.tuple<[#fx.ssa]>]>}> ({
  // GENERIC-NEXT: ^bb0(%x_1: tensor<2xf32>):
  %r = torch.higher_order.cond(%p, @true_graph_0, @false_graph_0, (%x,)) ({
  ^bb0(%x: tensor<2xf32>):
    %y = torch.aten.sin.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
    fx.output((%y,)) : (tensor<2xf32>) -> ()
  }, {
  ^bb0(%x: tensor<2xf32>):
    fx.output((%x,)) : (tensor<2xf32>) -> ()
  }) {fx.note = "kept"} : (tensor<i1>, tensor<2xf32>) -> tuple<tensor<2xf32>>
  // CHECK-NEXT: func.return
  func.return
}

/// Keywords, a region that is passed twice, and regions in regions.
// CHECK-LABEL: func.func @nested
func.func @nested(%x: tensor<2xf32>) {
  // CHECK-NEXT: %r = torch.higher_order.checkpoint(@outer, %x, use_reentrant = false, again = [@outer]) ({
  // CHECK-NEXT: ^bb0(%x: tensor<2xf32>):
  // CHECK-NEXT:   %r = torch.higher_order.checkpoint(@"inner one", %x) ({
  // CHECK-NEXT:   ^bb0(%x: tensor<2xf32>):
  // CHECK-NEXT:     fx.output(%x) : (tensor<2xf32>) -> ()
  // CHECK-NEXT:   }) : (tensor<2xf32>) -> tensor<2xf32>
  // CHECK-NEXT:   fx.output(%r) : (tensor<2xf32>) -> ()
  // CHECK-NEXT: }) : (tensor<2xf32>) -> tensor<2xf32>
  %r = torch.higher_order.checkpoint(@outer, %x, use_reentrant = false, again = [@outer]) ({
  ^bb0(%x: tensor<2xf32>):
    %r = torch.higher_order.checkpoint(@"inner one", %x) ({
    ^bb0(%x: tensor<2xf32>):
      fx.output(%x) : (tensor<2xf32>) -> ()
    }) : (tensor<2xf32>) -> tensor<2xf32>
    fx.output(%r) : (tensor<2xf32>) -> ()
  }) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}
