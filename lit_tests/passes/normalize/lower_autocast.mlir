// RUN: fxc-opt %s --split-input-file --pass-pipeline=lower-autocast | filecheck %s

/// Operands that autocast casts, once each; what it leaves alone stays as it is.
// CHECK-LABEL: @casts
func.func @casts(%x: tensor<2x2xf32>, %b: tensor<2xf32>) -> tensor<2x2xbf16> {
  %t = torch.higher_order.wrap_with_autocast("cpu", torch.bfloat16, true, false, @submod, %x, %b) ({
  ^bb0(%a: tensor<2x2xf32>, %c: tensor<2xf32>):
    %m = torch.aten.mm.default(%a, %a) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xbf16>
    %n = torch.aten.layer_norm.default(%m, [2], %c) : (tensor<2x2xbf16>, tensor<2xf32>) -> tensor<2x2xbf16>
    fx.output((%n,)) : (tensor<2x2xbf16>) -> ()
  }) : (tensor<2x2xf32>, tensor<2xf32>) -> tuple<tensor<2x2xbf16>>
  %y = fx.call_function @operator.getitem(%t, 0) : (tuple<tensor<2x2xbf16>>) -> tensor<2x2xbf16>
  fx.output(%y) : (tensor<2x2xbf16>) -> ()
}
// CHECK-NEXT: %0 = torch.aten._to_copy.default(%x, dtype = torch.bfloat16) : (tensor<2x2xf32>) -> tensor<2x2xbf16>
// CHECK-NEXT: %m = torch.aten.mm.default(%0, %0)
// CHECK-NEXT: %n = torch.aten.layer_norm.default(%m, [2], %b)
// CHECK-NEXT: fx.output(%n)

// -----

/// Operators that autocast runs in single precision, and those whose operands it brings to one type, lists too.
// CHECK-LABEL: @widens
func.func @widens(%x: tensor<2xbf16>, %y: tensor<2xf32>) -> (tensor<f32>, tensor<4xf32>) {
  %l, %c = torch.higher_order.wrap_with_autocast("cpu", torch.bfloat16, true, false, @submod, %x, %y) ({
  ^bb0(%a: tensor<2xbf16>, %b: tensor<2xf32>):
    %l = torch.aten.mse_loss.default(%a, %a) : (tensor<2xbf16>, tensor<2xbf16>) -> tensor<f32>
    %c = torch.aten.cat.default([%a, %b]) : (tensor<2xbf16>, tensor<2xf32>) -> tensor<4xf32>
    fx.output((%l, %c)) : (tensor<f32>, tensor<4xf32>) -> ()
  }) : (tensor<2xbf16>, tensor<2xf32>) -> (tensor<f32>, tensor<4xf32>)
  func.return %l, %c : tensor<f32>, tensor<4xf32>
}
// CHECK-NEXT: [[A:%.+]] = torch.aten._to_copy.default(%x, dtype = torch.float32)
// CHECK-NEXT: %l = torch.aten.mse_loss.default([[A]], [[A]])
// CHECK-NEXT: [[B:%.+]] = torch.aten._to_copy.default(%x, dtype = torch.float32)
// CHECK-NEXT: %c = torch.aten.cat.default({{\[}}[[B]], %y])
// CHECK-NEXT: func.return %l, %c

// -----

/// A region in a region where it is off, and the branches of an operator in one.
// CHECK-LABEL: @nested
func.func @nested(%p: tensor<i1>, %x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tuple<tensor<2x2xbf16>>) {
  %y, %z = torch.higher_order.wrap_with_autocast("cpu", torch.bfloat16, true, false, @submod, %p, %x) ({
  ^bb0(%q: tensor<i1>, %a: tensor<2x2xf32>):
    %i = torch.higher_order.wrap_with_autocast("cpu", torch.bfloat16, false, false, @submod, %a) ({
    ^bb1(%b: tensor<2x2xf32>):
      %m = torch.aten.mm.default(%b, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
      fx.output((%m,)) : (tensor<2x2xf32>) -> ()
    }) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %c = torch.higher_order.cond(%q, @yes, @no, (%a,)) ({
    ^bb2(%b: tensor<2x2xf32>):
      %m = torch.aten.mm.default(%b, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xbf16>
      fx.output((%m,)) : (tensor<2x2xbf16>) -> ()
    }, {
    ^bb3(%b: tensor<2x2xf32>):
      %m = torch.aten.to.dtype(%b, torch.bfloat16) : (tensor<2x2xf32>) -> tensor<2x2xbf16>
      fx.output((%m,)) : (tensor<2x2xbf16>) -> ()
    }) : (tensor<i1>, tensor<2x2xf32>) -> tuple<tensor<2x2xbf16>>
    fx.output((%i, %c)) : (tensor<2x2xf32>, tuple<tensor<2x2xbf16>>) -> ()
  }) : (tensor<i1>, tensor<2x2xf32>) -> (tensor<2x2xf32>, tuple<tensor<2x2xbf16>>)
  func.return %y, %z : tensor<2x2xf32>, tuple<tensor<2x2xbf16>>
}
// CHECK-NEXT: torch.aten.mm.default(%x, %x)
// CHECK:      torch.higher_order.cond
// CHECK:      [[C:%.+]] = torch.aten._to_copy.default(%b, dtype = torch.bfloat16)
// CHECK-NEXT: torch.aten.mm.default([[C]], [[C]])
/// A cast of the operator's own is none of autocast's.
// CHECK:      ^bb{{.*}}(%b: tensor<2x2xf32>):
// CHECK-NEXT: torch.aten.to.dtype(%b, torch.bfloat16)

// -----

/// Without a region nothing is cast.
// CHECK-LABEL: @outside
func.func @outside(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %m = torch.aten.mm.default(%x, %x) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %m : tensor<2x2xf32>
}
// CHECK-NEXT: torch.aten.mm.default(%x, %x)
