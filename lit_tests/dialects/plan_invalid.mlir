// RUN: fxc-opt %s --split-input-file --verify-diagnostics

func.func @case_0(%x: tensor<4xf32>) {
  %a = plan.arena : !plan.arena<-1, "cpu">
  // expected-error@+1 {{plan.arena: there is no block of -1 bytes}}
  fx.output() : () -> ()
}

// -----

func.func @case_1(%x: tensor<4xf32>) {
  %a = plan.arena : !plan.arena<128, "cpu">
  // expected-error@+1 {{plan.alloc: the offset 32 is no multiple of 64}}
  %b = plan.alloc %a[32] : tensor<4xf32>
  fx.output() : () -> ()
}

// -----

func.func @case_2(%x: tensor<4xf32>) {
  %a = plan.arena : !plan.arena<128, "cpu">
  // expected-error@+1 {{plan.alloc: the offset -64 is no multiple of 64}}
  %b = plan.alloc %a[-64] : tensor<4xf32>
  fx.output() : () -> ()
}

// -----

func.func @case_3(%x: tensor<4xf32>) {
  %a = plan.arena : !plan.arena<128, "cpu">
  // expected-error@+1 {{plan.alloc: bytes 64 to 132 are outside of an arena of 128}}
  %b = plan.alloc %a[64] : tensor<17xf32>
  fx.output() : () -> ()
}

// -----

func.func @case_4(%x: tensor<4xf32>) {
  %a = plan.arena : !plan.arena<128, "cpu">
  // expected-error@+1 {{plan.alloc: the arena is on cpu}}
  %b = plan.alloc %a[64] : tensor<4xf32, #torch.meta<device = "cuda:0">>
  fx.output() : () -> ()
}

// -----

func.func @case_5(%x: tensor<4xf32>) {
  // expected-error@+1 {{plan.alloc: memory has static sizes and strides, unlike tensor<?xf32>}}
  %b = plan.alloc : tensor<?xf32>
  fx.output() : () -> ()
}

// -----

func.func @case_6(%x: tensor<4xf32>) {
  // expected-error@+1 {{plan.alloc: memory has static sizes and strides, unlike tensor<4xf32, #torch.meta<layout = "sparse_coo">>}}
  %b = plan.alloc : tensor<4xf32, #torch.meta<layout = "sparse_coo">>
  fx.output() : () -> ()
}

// -----

func.func @case_7(%x: tensor<4xf32>) {
  // expected-error@+1 {{plan.alloc: an arena and the offset in it come together}}
  %b = "plan.alloc"() <{offset = 0 : i64, operandSegmentSizes = array<i32: 0, 0>}> : () -> tensor<4xf32>
  fx.output() : () -> ()
}

// -----

func.func @case_8(%x: !plan.arena<64, "cpu">) {
  %a = plan.alloc %x[0] : !plan.arena<64, "cpu">
  // expected-error@+1 {{plan.alloc: the arena is an argument, or made by a plan.arena, of the same block}}
  %b = plan.alloc %a[0] : tensor<4xf32>
  fx.output() : () -> ()
}

// -----

func.func @case_9(%x: tensor<4xf32>) {
  %a = plan.arena : !plan.arena<128, "cpu">
  %b = plan.alloc %a[64] : tensor<4xf32>
  // expected-error@+1 {{plan.alloc: %c at bytes 0 to 128 meets %b at 64 to 80, which is still in use}}
  %c = plan.alloc %a[0] : tensor<32xf32>
  fx.output() : () -> ()
}

// -----

func.func @case_10(%x: tensor<4xf32>) {
  %a = plan.arena : !plan.arena<128, "cpu">
  %b = plan.alloc %a[0] : tensor<4xf32>
  %v = torch.aten.view.default(%b, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  plan.free %b : tensor<4xf32>
  // expected-error@+1 {{plan.alloc: %c at bytes 0 to 16 meets %b at 0 to 16, which is still in use}}
  %c = plan.alloc %a[0] : tensor<4xf32>
  plan.free %v : tensor<2x2xf32>
  fx.output() : () -> ()
}

// -----

func.func @returned() -> tensor<2x2xf32> {
  %a = plan.arena : !plan.arena<128, "cpu">
  %b = plan.alloc %a[0] : tensor<4xf32>
  %v = torch.aten.view.default(%b, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  // expected-error@+1 {{fx.output: %v is in an arena, which does not outlive the call}}
  fx.output(%v) : (tensor<2x2xf32>) -> ()
}

// -----

func.func @case_12(%x: tensor<4xf32>) {
  %b = plan.alloc : tensor<4xf32>
  plan.free %b : tensor<4xf32>
  // expected-error@+1 {{torch.aten.exp.default: %b is used after its release}}
  %y = torch.aten.exp.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : () -> ()
}

// -----

func.func @case_13(%x: tensor<4xf32>) {
  %b = plan.alloc : tensor<4xf32>
  plan.free %b : tensor<4xf32>
  // expected-error@+1 {{plan.free: %b is used after its release}}
  plan.free %b : tensor<4xf32>
  fx.output() : () -> ()
}

// -----

func.func @case_14(%x: tensor<4xf32>) {
  %b = plan.alloc : tensor<4xf32>
  // expected-error@+1 {{plan.free: a name is released twice}}
  plan.free %b, %b : tensor<4xf32>, tensor<4xf32>
  fx.output() : () -> ()
}

// -----

func.func @case_15(%x: tensor<4xf32>) {
  // expected-error@+1 {{plan.free: an argument is the caller's}}
  plan.free %x : tensor<4xf32>
  fx.output() : () -> ()
}

// -----

func.func @case_16(%x: tensor<4xf32>) {
  %b = plan.alloc : tensor<4xf32>
  // expected-error@+1 {{plan.launch: callee names @other, which does not exist}}
  plan.launch @other(%x) outs(%b) : (tensor<4xf32>) outs(tensor<4xf32>)
  fx.output() : () -> ()
}

// -----

func.func @case_17(%x: tensor<4xf32>) {
  %b = plan.alloc : tensor<4xf32>
  // expected-error@+1 {{plan.launch: @case_17 is not a tile.kernel}}
  plan.launch @case_17(%x) outs(%b) : (tensor<4xf32>) outs(tensor<4xf32>)
  fx.output() : () -> ()
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write", tile.elements = 4}) attributes {grid = array<i64: 1>} {
  tile.return
}
func.func @case_18(%x: tensor<4xf32>) {
  %b = plan.alloc : tensor<4xf32>
  // expected-error@+1 {{plan.launch: the kernel takes 1 operands and gives 1 results, but there are 1 and 0}}
  plan.launch @k(%x) outs() : (tensor<4xf32>) outs()
  fx.output() : () -> ()
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write", tile.elements = 4}) attributes {grid = array<i64: 1>} {
  tile.return
}
func.func @case_19(%x: tensor<4xf32>) {
  %b = plan.alloc : tensor<4xf16>
  // expected-error@+1 {{plan.launch: for argument 1, expected a tensor of f32, not tensor<4xf16>}}
  plan.launch @k(%x) outs(%b) : (tensor<4xf32>) outs(tensor<4xf16>)
  fx.output() : () -> ()
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write", tile.elements = 4}) attributes {grid = array<i64: 1>} {
  tile.return
}
func.func @case_20(%x: tensor<4xf32>) {
  %b = plan.alloc : tensor<3xf32>
  // expected-error@+1 {{plan.launch: argument 1 addresses 4 elements, but there are 3 in tensor<3xf32>}}
  plan.launch @k(%x) outs(%b) : (tensor<4xf32>) outs(tensor<3xf32>)
  fx.output() : () -> ()
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write", tile.elements = 4}) attributes {grid = array<i64: 1>} {
  tile.return
}
func.func @case_21(%x: tensor<4xf32>) {
  %b = plan.alloc : tensor<4xf32>
  // expected-error@+1 {{plan.launch: argument 1 writes over argument 0, and not both have tile.in_place}}
  plan.launch @k(%b) outs(%b) : (tensor<4xf32>) outs(tensor<4xf32>)
  fx.output() : () -> ()
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "write"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>} {
  tile.return
}
func.func @twice() {
  %b = plan.alloc : tensor<4xf32>
  // expected-error@+1 {{plan.launch: a buffer is in outs twice}}
  plan.launch @k() outs(%b, %b) : () outs(tensor<4xf32>, tensor<4xf32>)
  fx.output() : () -> ()
}

// -----

func.func @case_23(%x: tensor<4xf32>) {
  // expected-error@+1 {{plan.record: there is no stream -1}}
  %e = plan.record {stream = -1} : !plan.event
  fx.output() : () -> ()
}

// -----

func.func @case_24(%x: tensor<4xf32>) {
  %e = plan.record {stream = 1} : !plan.event
  // expected-error@+1 {{plan.wait: there is no stream -2}}
  plan.wait %e {stream = -2}
  fx.output() : () -> ()
}

// -----

func.func @own_arena() {
  // expected-error@+1 {{plan.alloc: an arena is allocated by plan.arena}}
  %a = plan.alloc : !plan.arena<64, "cpu">
  fx.output() : () -> ()
}

// -----

func.func @part_beyond(%a: !plan.arena<128, "cpu">) {
  // expected-error@+1 {{plan.alloc: bytes 64 to 192 are outside of an arena of 128}}
  %b = plan.alloc %a[64] : !plan.arena<128, "cpu">
  fx.output() : () -> ()
}

// -----

func.func @given(%a: !plan.arena<128, "cpu">) {
  %b = plan.alloc %a[64] : !plan.arena<64, "cpu">
  // expected-error@+1 {{plan.alloc: %c at bytes 64 to 80 meets %b at 64 to 128, which is still in use}}
  %c = plan.alloc %a[64] : tensor<4xf32>
  fx.output() : () -> ()
}

// -----

func.func @unknown_arena() {
  // expected-error@+1 {{expected an arena that is made above, found %a}}
  %b = plan.alloc %a[64] : tensor<4xf32>
  fx.output() : () -> ()
}

// -----

func.func @other_bytes(%x: tensor<4xf32>) {
  // expected-error@+1 {{plan.view: tensor<4xf32> and tensor<5xf32> do not fill the same bytes}}
  %v = plan.view %x : tensor<4xf32> to tensor<5xf32>
  fx.output() : () -> ()
}

// -----

func.func @gaps(%x: tensor<4xf32>) {
  // expected-error@+1 {{plan.view: tensor<4xf32> and tensor<4xf32, #torch.meta<strides = [2]>> do not fill the same bytes}}
  %v = plan.view %x : tensor<4xf32> to tensor<4xf32, #torch.meta<strides = [2]>>
  fx.output() : () -> ()
}

// -----

func.func @other_dtype(%x: tensor<4xf32>) {
  // expected-error@+1 {{plan.view: tensor<4xf32> and tensor<4xi32> do not fill the same bytes}}
  %v = plan.view %x : tensor<4xf32> to tensor<4xi32>
  fx.output() : () -> ()
}

// -----

func.func private @keeps(%x: tensor<4xf32>) -> tensor<2x2xf32> {
  %v = torch.aten.view.default(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  func.return %v : tensor<2x2xf32>
}
func.func @lends() {
  %b = plan.alloc : tensor<4xf32>
  // expected-error@+1 {{func.call: @keeps retains or returns an argument, contrary to plan.borrows}}
  %y = func.call @keeps(%b) {plan.borrows} : (tensor<4xf32>) -> tensor<2x2xf32>
  plan.free %b, %y : tensor<4xf32>, tensor<2x2xf32>
  fx.output() : () -> ()
}
