// RUN: fxc-opt %s --split-input-file --bucket-collectives=100 | filecheck %s
// RUN: fxc-opt %s --split-input-file -p "bucket-collectives{bytes=100},bucket-collectives{bytes=100}" | filecheck %s

/// Reductions are merged in the order of their starts, up to 100 bytes; others between them do not matter.
// CHECK-LABEL: func.func @reductions
// CHECK-NEXT:    %a1 = torch.aten.exp.default
// CHECK-NEXT:    %r, %s = dist.all_reduce "sum" over @dp (%x, %a1)
// CHECK-NEXT:    dist.all_reduce "max" over @dp (%x)
// CHECK-NEXT:    dist.all_reduce "sum" over @tp (%x)
// CHECK-NEXT:    %c = dist.all_reduce "sum" over @dp (%x) :
// CHECK-NEXT:    %h = dist.all_reduce "sum" over @dp (%y) :
dist.mesh @mesh "cpu" (dp = 2, tp = 2)
dist.group @dp "0" on @mesh(dp)
dist.group @tp "1" on @mesh(tp)
func.func @reductions(%x: tensor<10xf32>, %y: tensor<10xf16>) {
  %r = dist.all_reduce "sum" over @dp (%x) : (tensor<10xf32>) -> tensor<10xf32>
  %a1 = torch.aten.exp.default(%x) : (tensor<10xf32>) -> tensor<10xf32>
  %m = dist.all_reduce "max" over @dp (%x) : (tensor<10xf32>) -> tensor<10xf32>
  %t = dist.all_reduce "sum" over @tp (%x) : (tensor<10xf32>) -> tensor<10xf32>
  %s = dist.all_reduce "sum" over @dp (%a1) : (tensor<10xf32>) -> tensor<10xf32>
  %c = dist.all_reduce "sum" over @dp (%x) : (tensor<10xf32>) -> tensor<10xf32>
  %h = dist.all_reduce "sum" over @dp (%y) : (tensor<10xf16>) -> tensor<10xf16>
  %rw = dist.wait %r : tensor<10xf32>
  %mw = dist.wait %m : tensor<10xf32>
  %tw = dist.wait %t : tensor<10xf32>
  %sw = dist.wait %s : tensor<10xf32>
  %cw = dist.wait %c : tensor<10xf32>
  %hw = dist.wait %h : tensor<10xf16>
  fx.output(%rw, %mw, %tw, %sw, %cw, %hw) : (tensor<10xf32>, tensor<10xf32>, tensor<10xf32>, tensor<10xf32>, tensor<10xf32>, tensor<10xf16>) -> ()
}

// -----

/// Gathers are merged in the order in which results are needed, counted by their results, and start where the first of them did.
// CHECK-LABEL: func.func @gathers
// CHECK-NEXT:    %a = dist.all_gather over @dp (%x) :
// CHECK-NEXT:    %c, %b = dist.all_gather over @dp (%z, %y)
// CHECK-NEXT:    %cw = dist.wait %c
// CHECK-NEXT:    %bw = dist.wait %b
// CHECK-NEXT:    %aw = dist.wait %a
dist.group @dp "0" ranks [0, 1]
func.func @gathers(%x: tensor<6xf32>, %y: tensor<6xf32>, %z: tensor<6xf32>) {
  %a = dist.all_gather over @dp (%x) : (tensor<6xf32>) -> tensor<12xf32>
  %b = dist.all_gather over @dp (%y) : (tensor<6xf32>) -> tensor<12xf32>
  %c = dist.all_gather over @dp (%z) : (tensor<6xf32>) -> tensor<12xf32>
  %cw = dist.wait %c : tensor<12xf32>
  %bw = dist.wait %b : tensor<12xf32>
  %aw = dist.wait %a : tensor<12xf32>
  fx.output(%aw, %bw, %cw) : (tensor<12xf32>, tensor<12xf32>, tensor<12xf32>) -> ()
}

// -----

/// One that needs the result of the other is not merged with it; nor are those between which memory is written.
// CHECK-LABEL: func.func @guards
// CHECK:         %r = dist.all_reduce "sum" over @dp (%x) :
// CHECK:         %s = dist.all_reduce "sum" over @dp (%rw) :
// CHECK:         %u = dist.all_reduce "sum" over @dp (%x) :
dist.group @dp "0" ranks [0, 1]
func.func @guards(%x: tensor<4xf32>) {
  %r = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %rw = dist.wait %r : tensor<4xf32>
  %s = dist.all_reduce "sum" over @dp (%rw) : (tensor<4xf32>) -> tensor<4xf32>
  %w = torch.aten.relu_.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %u = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %sw = dist.wait %s : tensor<4xf32>
  %uw = dist.wait %u : tensor<4xf32>
  fx.output(%rw, %sw, %uw) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Broadcasts and exchanges have no form with several operands. Scatters have.
// CHECK-LABEL: func.func @kinds
// CHECK-COUNT-2: dist.broadcast 0 over @dp (%x)
// CHECK-NEXT:    %c, %d = dist.reduce_scatter "sum" over @dp (%x, %x)
dist.group @dp "0" ranks [0, 1]
func.func @kinds(%x: tensor<4xf32>) {
  %a = dist.broadcast 0 over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = dist.broadcast 0 over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = dist.reduce_scatter "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<2xf32>
  %d = dist.reduce_scatter "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<2xf32>
  fx.output() : () -> ()
}

// -----

/// What computes the operand of a gather from an argument moves up: a cast, or the padding of an uneven shard.
// CHECK-LABEL: func.func @operands_of_arguments
// CHECK-NEXT:    %c = torch.aten._to_copy.default(%p
// CHECK-NEXT:    %d = torch.aten.constant_pad_nd.default(%q
// CHECK-NEXT:    %e = torch.aten.alias.default(%d)
// CHECK-NEXT:    %r, %s = dist.all_gather over @dp (%c, %e)
// CHECK-NEXT:    %u = dist.wait %r
dist.group @dp "0" ranks [0, 1]
func.func @operands_of_arguments(%p: tensor<4xf64>, %q: tensor<2xf32>) {
  %c = torch.aten._to_copy.default(%p, dtype = f32) : (tensor<4xf64>) -> tensor<4xf32>
  %r = dist.all_gather over @dp (%c) : (tensor<4xf32>) -> tensor<8xf32>
  %u = dist.wait %r : tensor<8xf32>
  %y = torch.aten.exp.default(%u) : (tensor<8xf32>) -> tensor<8xf32>
  %d = torch.aten.constant_pad_nd.default(%q, [0, 1]) : (tensor<2xf32>) -> tensor<3xf32>
  %e = torch.aten.alias.default(%d) : (tensor<3xf32>) -> tensor<3xf32>
  %s = dist.all_gather over @dp (%e) : (tensor<3xf32>) -> tensor<6xf32>
  %v = dist.wait %s : tensor<6xf32>
  fx.output(%y, %v) : (tensor<8xf32>, tensor<6xf32>) -> ()
}

// -----

/// Not what an operation computes that another gather needs first, that reads a computed value, or that follows a write.
// CHECK-LABEL: func.func @operands_of_others
// CHECK-COUNT-2: dist.all_gather over @dp (%{{.}})
// CHECK-LABEL: func.func @after_a_write
// CHECK-COUNT-2: dist.all_gather over @dp (%{{.}})
dist.group @dp "0" ranks [0, 1]
func.func @operands_of_others(%p: tensor<4xf32>) {
  %r = dist.all_gather over @dp (%p) : (tensor<4xf32>) -> tensor<8xf32>
  %u = dist.wait %r : tensor<8xf32>
  %e = torch.aten.exp.default(%u) : (tensor<8xf32>) -> tensor<8xf32>
  %s = dist.all_gather over @dp (%e) : (tensor<8xf32>) -> tensor<16xf32>
  %v = dist.wait %s : tensor<16xf32>
  fx.output(%v) : (tensor<16xf32>) -> ()
}
func.func @after_a_write(%p: tensor<4xf32>, %q: tensor<4xf32>) {
  %r = dist.all_gather over @dp (%p) : (tensor<4xf32>) -> tensor<8xf32>
  %u = dist.wait %r : tensor<8xf32>
  %w = torch.aten.relu_.default(%q) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.exp.default(%q) : (tensor<4xf32>) -> tensor<4xf32>
  %s = dist.all_gather over @dp (%e) : (tensor<4xf32>) -> tensor<8xf32>
  %v = dist.wait %s : tensor<8xf32>
  fx.output(%u, %v) : (tensor<8xf32>, tensor<8xf32>) -> ()
}
