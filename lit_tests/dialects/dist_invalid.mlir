// RUN: fxc-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{dist.mesh: @mesh(dp = 2) has 2 ranks, not 3}}
dist.mesh @mesh "cpu" (dp = 2) ranks [0, 1, 2]

// -----

// expected-error@+1 {{rank 1 is there twice}}
dist.mesh @mesh "cpu" (dp = 2) ranks [1, 1]

// -----

// expected-error@+1 {{ranks begin at 0, and -1 is one of them}}
dist.mesh @mesh "cpu" (dp = 2) ranks [-1, 1]

// -----

// expected-error@+1 {{dist.mesh: an axis of @mesh(dp = 0) has no ranks}}
dist.mesh @mesh "cpu" (dp = 0)

// -----

// expected-error@+1 {{a mesh has axes of different names, with a size each; there are []}}
dist.mesh @mesh "cpu" ()

// -----

// expected-error@+1 {{two axes have the same name}}
dist.mesh @mesh "cpu" (dp = 2, dp = 2)

// -----

dist.mesh @mesh "cpu" (dp = 2)
// expected-error@+1 {{dist.group: @mesh(dp = 2) has no axis tp}}
dist.group @tp "1" on @mesh(tp)

// -----

dist.mesh @mesh "cpu" (dp = 2)
// expected-error@+1 {{dist.group: an axis is there twice}}
dist.group @dp "1" on @mesh(dp, dp)

// -----

// expected-error@+1 {{dist.group: mesh names @mesh, which does not exist}}
dist.group @dp "1" on @mesh(dp)

// -----

dist.group @other "0" ranks [0, 1]
// expected-error@+1 {{dist.group: @other is no mesh}}
dist.group @dp "1" on @other(dp)

// -----

// expected-error@+1 {{dist.group: a group is along axes of a mesh, or a list of ranks}}
"dist.group"() <{sym_name = "dp", process_group = "1"}> : () -> ()

// -----

// expected-error@+1 {{dist.group: a group has at least one rank}}
dist.group @dp "1" ranks []

// -----

// expected-error@+1 {{rank 3 is there twice}}
dist.group @dp "1" ranks [3, 3]

// -----

dist.mesh @mesh "cpu" (dp = 2)
// expected-error@+1 {{dist.layout of argument 0 of @main: shard<1> of a tensor with 1 dimensions}}
func.func @main(%x: tensor<4xf32> {dist.layout = #dist.layout<@mesh, [shard<1>]>}) {
  fx.output() : () -> ()
}

// -----

dist.mesh @mesh "cpu" (dp = 2)
// expected-error@+1 {{dist.layout of result 0 of @main: there are 2 placements for the 1 axes of @mesh(dp = 2)}}
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {dist.layout = #dist.layout<@mesh, [shard<0>, replicate]>}) {
  fx.output(%x) : (tensor<4xf32>) -> ()
}

// -----

// expected-error@+1 {{dist.layout of argument 0 of @main: there is no mesh @mesh}}
func.func @main(%x: tensor<4xf32> {dist.layout = #dist.layout<@mesh, [shard<0>]>}) {
  fx.output() : () -> ()
}

// -----

// expected-error@+1 {{dist.layout of argument 0 of @main: expected #dist.layout, not 3 : i64}}
func.func @main(%x: tensor<4xf32> {dist.layout = 3}) {
  fx.output() : () -> ()
}

// -----

dist.mesh @mesh "cpu" (dp = 2)
// expected-error@+1 {{dist.layout of argument 0 of @main: a value of type !torch.int is no part of a tensor}}
func.func @main(%x: !torch.int {dist.layout = #dist.layout<@mesh, [replicate]>}) {
  fx.output() : () -> ()
}

// -----

// expected-error@+1 {{a placement is shard, replicate or partial, not halo}}
builtin.module attributes {p = #dist.placement<halo<0>>} {}

// -----

// expected-error@+1 {{#dist.placement: 'mean' is no reduction}}
builtin.module attributes {p = #dist.placement<partial<"mean">>} {}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{dist.all_reduce: group names @dp, which does not exist}}
  %r = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : () -> ()
}

// -----

dist.mesh @mesh "cpu" (dp = 2)
func.func @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{dist.all_reduce: @mesh is no process group}}
  %r = dist.all_reduce "sum" over @mesh (%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : () -> ()
}

// -----

dist.group @dp "0" ranks [0, 1]
func.func @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{dist.all_reduce: 'mean' is no reduction}}
  %r = dist.all_reduce "mean" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : () -> ()
}

// -----

dist.group @dp "0" ranks [0, 1]
func.func @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{dist.all_reduce: fx.output reads the result before a dist.wait}}
  %r = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%r) : (tensor<4xf32>) -> ()
}

// -----

dist.group @dp "0" ranks [0, 1]
func.func @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{dist.all_reduce: tensor<4xf32> and tensor<4xf16> differ}}
  %r = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf16>
  fx.output() : () -> ()
}

// -----

dist.group @dp "0" ranks [0, 1]
func.func @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{dist.all_reduce has operands, and a result for each}}
  %r = dist.all_reduce "sum" over @dp (%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output() : () -> ()
}

// -----

dist.group @dp "0" ranks [0, 1]
func.func @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{dist.all_gather: with 2 ranks the result has size 8, not 4}}
  %r = dist.all_gather over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : () -> ()
}

// -----

dist.group @dp "0" ranks [0, 1, 2]
func.func @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{dist.reduce_scatter: 4 elements do not split into 3 equal parts}}
  %r = dist.reduce_scatter "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<1xf32>
  fx.output() : () -> ()
}

// -----

dist.group @dp "0" ranks [0, 1]
func.func @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{dist.all_to_all: there are 1 sizes for 2 ranks}}
  %r = dist.all_to_all [4] to [2, 2] over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : () -> ()
}

// -----

dist.group @dp "0" ranks [0, 1]
func.func @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{dist.all_to_all: tensor<4xf32> is not of sizes [2, 1]}}
  %r = dist.all_to_all [2, 2] to [2, 1] over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : () -> ()
}

// -----

dist.group @dp "0" ranks [0, 1]
func.func @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{dist.broadcast: there is no rank 2 in a group of 2}}
  %r = dist.broadcast 2 over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : () -> ()
}

// -----

dist.group @dp "0" ranks [0, 1]
func.func @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{dist.broadcast has one operand, and a result for each}}
  %r, %s = dist.broadcast 1 over @dp (%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  fx.output() : () -> ()
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{dist.wait}}
  %r = "dist.wait"(%x) : (tensor<4xf32>) -> tensor<4xf16>
  fx.output() : () -> ()
}

// -----

func.func @before(%x: tensor<4xf32>) {
  // expected-error@+1 {{dist.all_reduce: dist.group: @before is no mesh}}
  %r = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : () -> ()
}
dist.group @dp "0" on @before(dp)
