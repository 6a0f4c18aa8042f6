// RUN: fxc-opt %s | filecheck %s
// RUN: fxc-opt %s | fxc-opt | filecheck %s

/// The scalars of a kernel say how many programs there are; a launch is given the sizes of its tensors.
// CHECK:      tile.kernel @k
// CHECK-SAME: %n: index
// CHECK-SAME: grid = affine_map<(d0) -> (((d0 * 3) ceildiv 8))>
tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}, %n: index)
attributes {grid = affine_map<(d0) -> (d0 * 3 ceildiv 8)>} {
  tile.return
}

/// Two axes, one of which is static; scalars that are no index are no part of the map.
// CHECK: grid = affine_map<(d0) -> (4, d0)>
tile.kernel @two_axes(%y: !tile.ptr<f32> {tile.access = "write"}, %s: f32, %n: index)
attributes {grid = affine_map<(d0) -> (4, d0)>} {
  %i = tile.program_id {axis = 1} : index
  tile.return
}

// CHECK: tile.launch @k(%x, %n) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>, !torch.int<"s0">)
func.func @main(%x: tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>, %n: !torch.int<"s0">) {
  %y = tile.launch @k(%x, %n) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>, !torch.int<"s0">)
    -> tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>
  fx.output(%y) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>) -> ()
}

// CHECK-LABEL: func.func @plan
// CHECK: %y = plan.alloc(%n) : tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>
func.func @plan(%x: tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>, %n: !torch.int<"s0">) {
  %y = plan.alloc(%n) : tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>
  plan.launch @k(%x, %n) outs(%y) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>, !torch.int<"s0">)
    outs(tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>)
  fx.output(%y) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>) -> ()
}
