// RUN: fxc-opt %s --split-input-file --verify-diagnostics

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}) attributes {grid = array<i64: 4>} {
  // expected-error@+1 {{it takes pointers of the kernel, each once}}
  tile.last_program (%a = %x, %b = %x) : !tile.ptr<f32>, !tile.ptr<f32> {
  }
  tile.return
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}) attributes {grid = array<i64: 4>} {
  // expected-error@+1 {{there is no tile.program_id in it, as any program may be the last}}
  tile.last_program (%a = %x) : !tile.ptr<f32> {
    %i = tile.program_id {axis = 0} : index
  }
  tile.return
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}) attributes {grid = array<i64: 0>} {
  // expected-error@+1 {{the grid of the kernel must be known, and have a program}}
  tile.last_program (%a = %x) : !tile.ptr<f32> {
  }
  tile.return
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %n: index) attributes {grid = affine_map<(d0) -> (d0)>} {
  // expected-error@+1 {{the grid of the kernel must be known, and have a program}}
  tile.last_program (%a = %x) : !tile.ptr<f32> {
  }
  tile.return
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}) attributes {grid = array<i64: 4>} {
  // expected-error@+1 {{it must be directly before tile.return}}
  tile.last_program (%a = %x) : !tile.ptr<f32> {
  }
  %i = tile.program_id {axis = 0} : index
  tile.return
}
