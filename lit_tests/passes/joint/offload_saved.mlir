// RUN: fxc-opt %s --split-input-file -p "offload-saved{bytes=64}" | filecheck %s
// RUN: fxc-opt %s --split-input-file -p "offload-saved{bytes=64},offload-saved{bytes=64}" | filecheck %s
// RUN: fxc-opt %s --split-input-file -p "offload-saved{bytes=1.0}" | filecheck %s --check-prefix=ALL
// RUN: fxc-opt %s --split-input-file -p offload-saved | filecheck %s --check-prefix=NONE
// RUN: fxc-opt %s --split-input-file -p "offload-saved{bytes=64},split-joint" --remarks=split-joint 2>&1 | filecheck %s --check-prefix=SPLIT

// NONE-NOT: autodiff.offloaded

/// The larger one first; the other one no longer fits.
// CHECK-LABEL: func.func @main
// CHECK:         %a = torch.aten.tanh.default(%x) {autodiff.saved = array<i64: 0>, autodiff.offloaded = array<i64: 0>}
// CHECK:         %b = torch.aten.tanh.default(%y) {autodiff.saved = array<i64: 0>} :
// ALL-LABEL:   func.func @main
// ALL:           %a = torch.aten.tanh.default(%x) {autodiff.saved = array<i64: 0>, autodiff.offloaded = array<i64: 0>}
// ALL:           %b = torch.aten.tanh.default(%y) {autodiff.saved = array<i64: 0>, autodiff.offloaded = array<i64: 0>}

/// The copy to the host follows the operation; that to the device is before the first reader.
// SPLIT:         saves 48 bytes on the host, because %a is read by aten.tanh_backward.default
// SPLIT:         saves 32 bytes, because %b is read by aten.tanh_backward.default
// SPLIT-LABEL: builtin.module @forward
// SPLIT:         %a = torch.aten.tanh.default(%x)
// SPLIT-NEXT:    [[A:%a[_0-9]*]] = torch.aten._to_copy.default(%a, device = device("cpu"))
// SPLIT-SAME:      -> tensor<12xf32>
// SPLIT:         fx.output(({{.*}}, [[A]], %b))
// SPLIT-LABEL: builtin.module @backward
// SPLIT-NEXT:    func.func @main(%a: tensor<12xf32>, %b: tensor<8xf32, #torch.meta<device = "cuda:0">>,
// SPLIT-NEXT:      torch.aten.tanh_backward.default(%e, %b)
// SPLIT-NEXT:      [[B:%a[_0-9]*]] = torch.aten._to_copy.default(%a, device = device("cuda:0"))
// SPLIT-SAME:      -> tensor<12xf32, #torch.meta<device = "cuda:0">>
// SPLIT-NEXT:      torch.aten.tanh_backward.default(%d, [[B]])
!l = tensor<12xf32, #torch.meta<device = "cuda:0">>
!s = tensor<8xf32, #torch.meta<device = "cuda:0">>
func.func @main(%x: !l, %y: !s, %d: !l {autodiff.tangent}, %e: !s {autodiff.tangent}) attributes {autodiff.forward_results = 2 : i64} {
  %a = torch.aten.tanh.default(%x) {autodiff.saved = array<i64: 0>} : (!l) -> !l
  %b = torch.aten.tanh.default(%y) {autodiff.saved = array<i64: 0>} : (!s) -> !s
  %p = torch.aten.exp.default(%a) : (!l) -> !l
  %q = torch.aten.exp.default(%b) : (!s) -> !s
  %h = torch.aten.tanh_backward.default(%e, %b) : (!s, !s) -> !s
  %g = torch.aten.tanh_backward.default(%d, %a) : (!l, !l) -> !l
  fx.output([%p, %q, %g, %h]) : (!l, !s, !l, !s) -> ()
}

// -----

/// Not: on the host, with gaps, a result of the forward.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     autodiff.offloaded
// ALL-LABEL:   func.func @main
// ALL-NOT:       autodiff.offloaded
!h = tensor<4xf32>
!g = tensor<4xf32, #torch.meta<strides = [2], device = "cuda:0">>
!t = tensor<4xf32, #torch.meta<device = "cuda:0">>
func.func @main(%x: !h, %y: !g, %z: !t, %d: !h {autodiff.tangent}, %e: !t {autodiff.tangent}) attributes {autodiff.forward_results = 2 : i64} {
  %a = torch.aten.tanh.default(%x) {autodiff.saved = array<i64: 0>} : (!h) -> !h
  %b = torch.aten.tanh.default(%y) {autodiff.saved = array<i64: 0>} : (!g) -> !g
  %r = torch.aten.tanh.default(%z) {autodiff.saved = array<i64: 0>} : (!t) -> !t
  %p = torch.aten.exp.default(%a) : (!h) -> !h
  %g = torch.aten.tanh_backward.default(%d, %a) : (!h, !h) -> !h
  %i = torch.aten.tanh_backward.default(%e, %r) : (!t, !t) -> !t
  %h = torch.aten.tanh_backward.default(%i, %b) : (!t, !g) -> !t
  fx.output([%p, %r, %g, %h]) : (!h, !t, !h, !t) -> ()
}
