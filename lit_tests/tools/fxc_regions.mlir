// RUN: fxc translate %s --to=dot | filecheck %s
// RUN: fxc run %s --seed 0 | filecheck %s --check-prefix=RES

/// Each region is a cluster of its own, tied to its op by a dashed edge.
func.func @main(%p: tensor<i1>, %x: tensor<2xf32>) -> tuple<tensor<2xf32>> {
  %y = torch.higher_order.cond(%p, @yes, @no, (%x,)) ({
  ^bb0(%a: tensor<2xf32>):
    %b = torch.aten.zeros_like.default(%a) : (tensor<2xf32>) -> tensor<2xf32>
    fx.output((%b,)) : (tensor<2xf32>) -> ()
  }, {
  ^bb0(%a: tensor<2xf32>):
    %b = torch.aten.zeros_like.default(%a) : (tensor<2xf32>) -> tensor<2xf32>
    fx.output((%b,)) : (tensor<2xf32>) -> ()
  }) : (tensor<i1>, tensor<2xf32>) -> tuple<tensor<2xf32>>
  fx.output(%y) : (tuple<tensor<2xf32>>) -> ()
}

// CHECK: label="@main";
// CHECK: [[COND:n[0-9]+]] [label="higher_order.cond\n
// CHECK: label="yes";
// CHECK: label="no";
// CHECK: [[COND]] -> {{n[0-9]+}} [style=dashed, label="yes"];
// CHECK: [[COND]] -> {{n[0-9]+}} [style=dashed, label="no"];

// RES: result[0]: tensor<2xf32>
// RES-NEXT: shape (2,), dtype float32, mean 0, min 0, max 0, first 0 0
