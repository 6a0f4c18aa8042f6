// RUN: fxc-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{tile.kernel: the grid is a map of the 1 scalars that are an index, not a map of 2 dimensions and 0 symbols}}
tile.kernel @dimensions(%y: !tile.ptr<f32> {tile.access = "write"}, %n: index)
attributes {grid = affine_map<(d0, d1) -> (d0)>} {
  tile.return
}

// -----

// expected-error@+1 {{not a map of 1 dimensions and 1 symbols}}
tile.kernel @symbols(%y: !tile.ptr<f32> {tile.access = "write"}, %n: index)
attributes {grid = affine_map<(d0)[s0] -> (d0 + s0)>} {
  tile.return
}

// -----

// expected-error@+1 {{must have one to three sizes, none negative}}
tile.kernel @negative(%y: !tile.ptr<f32> {tile.access = "write"}, %n: index)
attributes {grid = affine_map<(d0) -> (d0, -2)>} {
  tile.return
}

// -----

// expected-error@+1 {{must have one to three sizes, none negative}}
tile.kernel @negative_array(%y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: -1>} {
  tile.return
}

// -----

tile.kernel @axis(%y: !tile.ptr<f32> {tile.access = "write"}, %n: index) attributes {grid = affine_map<(d0) -> (d0)>} {
  // expected-error@+1 {{tile.program_id: the grid has no axis 1}}
  %i = tile.program_id {axis = 1} : index
  tile.return
}

// -----

tile.kernel @k(%y: !tile.ptr<f32> {tile.access = "write"}, %n: index) attributes {grid = affine_map<(d0) -> (d0)>} {
  tile.return
}
func.func @unknown(%n: !torch.int<"s1">) {
  // expected-error@+1 {{tile.launch: no number is the size s0 of}}
  %y = tile.launch @k(%n) : (!torch.int<"s1">) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  fx.output(%y) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> ()
}

// -----

tile.kernel @k(%y: !tile.ptr<f32> {tile.access = "write"}, %n: index) attributes {grid = affine_map<(d0) -> (d0)>} {
  tile.return
}
func.func @unnamed(%n: !torch.int) {
  // expected-error@+1 {{tile.launch: no number is the size ? of tensor<?xf32>}}
  %y = tile.launch @k(%n) : (!torch.int) -> tensor<?xf32>
  fx.output(%y) : (tensor<?xf32>) -> ()
}

// -----

func.func @static(%n: !torch.int<"s0">) {
  // expected-error@+2 {{expected a number for each of []}}
  %b = plan.alloc(%n) : tensor<4xf32>
  fx.output(%b) : (tensor<4xf32>) -> ()
}

// -----

func.func @steps(%n: !torch.int<"s0">) {
  // expected-error@+1 {{plan.alloc: ['s0'] are not the symbols of}}
  %b = plan.alloc(%n) : tensor<4x?xf32, #torch.meta<sizes = [4, "s0"], layout = "sparse_csr">>
  fx.output(%b) : (tensor<4x?xf32, #torch.meta<sizes = [4, "s0"], layout = "sparse_csr">>) -> ()
}
