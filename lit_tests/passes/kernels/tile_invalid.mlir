// RUN: fxc-opt %s --split-input-file --verify-diagnostics --pass-pipeline=convert-fusion-to-linalg,tile

/// A stage that is not there.
func.func @missing(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{tile.schedule must have each of the 1 stages once, but has [1]}}
  %s = fusion.group ({
    %a = torch.aten.neg.default(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    fusion.yield %a : tensor<4x8xf32>
  }) {tile.schedule = [#tile.schedule<"elementwise", stages = [1], lanes = 4, unroll = 1, block = 8>]} -> tensor<4x8xf32>
  fx.output(%s) : (tensor<4x8xf32>) -> ()
}

// -----

/// What is read comes first.
func.func @order(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{tile.schedule has stage 1 before stage 0, which it reads}}
  %s = fusion.group ({
    %m = torch.aten.amax.default(%x, [1], true) : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %a = torch.aten.sub.Tensor(%x, %m) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    fusion.yield %a : tensor<4x8xf32>
  }) {tile.schedule = [#tile.schedule<"elementwise", stages = [1], lanes = 4, unroll = 1, block = 8>, #tile.schedule<"inner", stages = [0], lanes = 4, unroll = 1, block = 8>]} -> tensor<4x8xf32>
  fx.output(%s) : (tensor<4x8xf32>) -> ()
}

// -----

/// One program cannot read what others have not computed yet.
func.func @rows(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{tile.schedule has stages in one kernel that read others of other rows}}
  %s = fusion.group ({
    %m = torch.aten.amax.default(%x, [1]) : (tensor<4x8xf32>) -> tensor<4xf32>
    %n = torch.aten.sum.default(%m) : (tensor<4xf32>) -> tensor<f32>
    %a = torch.aten.sub.Tensor(%x, %n) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    fusion.yield %a : tensor<4x8xf32>
  }) {tile.schedule = [#tile.schedule<"inner", stages = [0, 1, 2], lanes = 4, unroll = 1, block = 8>]} -> tensor<4x8xf32>
  fx.output(%s) : (tensor<4x8xf32>) -> ()
}

// -----

/// Not a schedule.
func.func @other(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{tile.schedule of a group is a list of #tile.schedule}}
  %s = fusion.group ({
    %a = torch.aten.neg.default(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    fusion.yield %a : tensor<4x8xf32>
  }) {tile.schedule = [1]} -> tensor<4x8xf32>
  fx.output(%s) : (tensor<4x8xf32>) -> ()
}

// -----

/// A vector must have what is held.
func.func @held(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{a row is held only where all passes have the same loop, and a vector has it}}
  %s = fusion.group ({
    %m = torch.aten._softmax.default(%x, 1, false) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    fusion.yield %m : tensor<4x8xf32>
  }) {tile.schedule = [#tile.schedule<"inner", stages = [0, 1, 2], lanes = 4, unroll = 1, block = 8, form = "held">]} -> tensor<4x8xf32>
  fx.output(%s) : (tensor<4x8xf32>) -> ()
}

// -----

/// What needs a total cannot be in the kernel that makes parts of it.
func.func @parts(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{partial reductions must not read one another's results}}
  %s = fusion.group ({
    %m = torch.aten._softmax.default(%x, 1, false) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    fusion.yield %m : tensor<4x8xf32>
  }) {tile.schedule = [#tile.schedule<"inner", stages = [0, 1, 2], lanes = 4, unroll = 1, block = 8, parts = 2>]} -> tensor<4x8xf32>
  fx.output(%s) : (tensor<4x8xf32>) -> ()
}

// -----

/// There is no kernel before the first.
func.func @last(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{begins with what is for the last program of a kernel before}}
  %s = fusion.group ({
    %m = torch.aten.neg.default(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    fusion.yield %m : tensor<4x8xf32>
  }) {tile.schedule = [#tile.schedule<"elementwise", stages = [0], lanes = 4, unroll = 1, block = 8, program = "last">]} -> tensor<4x8xf32>
  fx.output(%s) : (tensor<4x8xf32>) -> ()
}

// -----

/// Updates and their places are made by one kernel.
func.func @updates(%z: tensor<9xf32>, %i: tensor<20xi64>, %y: tensor<20xf32>) {
  // expected-error@+1 {{tile.schedule has the positions of updates, stage 1, without the updates before, stage 0}}
  %s = fusion.group ({
    %x = torch.aten.zeros_like.default(%z) : (tensor<9xf32>) -> tensor<9xf32>
    %m = torch.aten.index_add.default(%x, 0, %i, %y) : (tensor<9xf32>, tensor<20xi64>, tensor<20xf32>) -> tensor<9xf32>
    fusion.yield %m : tensor<9xf32>
  }) {tile.schedule = [
    #tile.schedule<"elementwise", stages = [0], lanes = 4, unroll = 1, block = 8>,
    #tile.schedule<"elementwise", stages = [1], lanes = 4, unroll = 1, block = 8>
  ]} -> tensor<9xf32>
  fx.output(%s) : (tensor<9xf32>) -> ()
}
