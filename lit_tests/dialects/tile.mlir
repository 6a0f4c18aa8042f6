// RUN: fxc-opt %s --split-input-file | filecheck %s
// RUN: fxc-opt %s --split-input-file | fxc-opt --split-input-file | filecheck %s
// RUN: fxc-opt %s --split-input-file --print-op-generic | fxc-opt --split-input-file | filecheck %s

/// Kernels: arguments with attributes, the grid, and attributes of their own. Names in a kernel may repeat those around it.
// CHECK-LABEL: tile.kernel @copy
// CHECK-SAME:    (%x: !tile.ptr<f32> {tile.access = "read", tile.elements = 40 : i64}, %out: !tile.ptr<f32> {tile.access = "write", tile.init = 0.000000e+00 : f32}, %n: index) attributes {grid = array<i64: 3>, tile.source = ["y = x.clone()"]} {
// CHECK-NEXT:    %i = tile.program_id {axis = 0} : index
// CHECK-NEXT:    %m = tile.mask %i, %n {dim = 0} : vector<16xi1>
// CHECK-NEXT:    %zero = arith.constant
// CHECK-NEXT:    %v = tile.load %x[%i] strides [1], %m, %zero : !tile.ptr<f32> -> vector<16xf32>
// CHECK-NEXT:    tile.store %v, %out[%i] strides [1], %m : vector<16xf32>, !tile.ptr<f32>
// CHECK-NEXT:    tile.return
tile.kernel @copy(%x: !tile.ptr<f32> {tile.access = "read", tile.elements = 40}, %out: !tile.ptr<f32> {tile.access = "write", tile.init = 0.0 : f32}, %n: index) attributes {grid = array<i64: 3>, tile.source = ["y = x.clone()"]} {
  %i = tile.program_id {axis = 0} : index
  %m = tile.mask %i, %n {dim = 0} : vector<16xi1>
  %zero = arith.constant 0.0 : f32
  %v = tile.load %x[%i] strides [1], %m, %zero : !tile.ptr<f32> -> vector<16xf32>
  tile.store %v, %out[%i] strides [1], %m : vector<16xf32>, !tile.ptr<f32>
  tile.return
}
// CHECK:       %y = tile.launch @copy(%x, %n) : (tensor<40xf32>, !torch.int) -> tensor<40xf32>
func.func @main(%x: tensor<40xf32>, %n: !torch.int) -> tensor<40xf32> {
  %y = tile.launch @copy(%x, %n) : (tensor<40xf32>, !torch.int) -> tensor<40xf32>
  func.return %y : tensor<40xf32>
}

// -----

/// Loads and stores: scalars, strides that are values, and places by number.
// CHECK-LABEL: tile.kernel @memory
// CHECK:         %s = tile.load %x[%i] : !tile.ptr<bf16> -> bf16
// CHECK-NEXT:    %b = tile.load %x[%i] strides [%n, 1, 0] : !tile.ptr<bf16> -> vector<4x8x2xbf16>
// CHECK-NEXT:    %g = tile.gather %x[%o] : !tile.ptr<bf16> -> vector<8xbf16>
// CHECK-NEXT:    %h = tile.gather %x[%o], %m, %s {hint = 1 : i64} : !tile.ptr<bf16> -> vector<8xbf16>
// CHECK-NEXT:    tile.store %s, %out[%i] : bf16, !tile.ptr<bf16>
// CHECK-NEXT:    tile.store %b, %out[%i] strides [%n, 1, 16] : vector<4x8x2xbf16>, !tile.ptr<bf16>
// CHECK-NEXT:    tile.scatter %g, %out[%o] : vector<8xbf16>, !tile.ptr<bf16>
// CHECK-NEXT:    tile.atomic_add %h, %out[%o], %m : vector<8xbf16>, !tile.ptr<bf16>
tile.kernel @memory(%x: !tile.ptr<bf16> {tile.access = "read"}, %out: !tile.ptr<bf16> {tile.access = "readwrite"}, %i: index, %n: index) attributes {grid = array<i64: 2, 3>} {
  %o = tile.iota {dim = 0} : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  %s = tile.load %x[%i] : !tile.ptr<bf16> -> bf16
  %b = tile.load %x[%i] strides [%n, 1, 0] : !tile.ptr<bf16> -> vector<4x8x2xbf16>
  %g = tile.gather %x[%o] : !tile.ptr<bf16> -> vector<8xbf16>
  %h = tile.gather %x[%o], %m, %s {hint = 1} : !tile.ptr<bf16> -> vector<8xbf16>
  tile.store %s, %out[%i] : bf16, !tile.ptr<bf16>
  tile.store %b, %out[%i] strides [%n, 1, 16] : vector<4x8x2xbf16>, !tile.ptr<bf16>
  tile.scatter %g, %out[%o] : vector<8xbf16>, !tile.ptr<bf16>
  tile.atomic_add %h, %out[%o], %m : vector<8xbf16>, !tile.ptr<bf16>
  tile.return
}

// -----

/// Every pointee, and the blocks that are loaded of them.
// CHECK-LABEL: tile.kernel @pointees
// CHECK:         tile.load %a[%i] strides [1] : !tile.ptr<i1> -> vector<4xi1>
// CHECK-NEXT:    tile.load %b[%i] strides [1] : !tile.ptr<ui8> -> vector<4xi8>
// CHECK-NEXT:    tile.load %c[%i] strides [1] : !tile.ptr<i16> -> vector<4xi16>
// CHECK-NEXT:    tile.load %d[%i] strides [1] : !tile.ptr<f64> -> vector<4xf64>
tile.kernel @pointees(%a: !tile.ptr<i1> {tile.access = "read"}, %b: !tile.ptr<ui8> {tile.access = "read"}, %c: !tile.ptr<i16> {tile.access = "read"}, %d: !tile.ptr<f64> {tile.access = "read"}) attributes {grid = array<i64: 1>} {
  %i = arith.constant 0 : index
  %0 = tile.load %a[%i] strides [1] : !tile.ptr<i1> -> vector<4xi1>
  %1 = tile.load %b[%i] strides [1] : !tile.ptr<ui8> -> vector<4xi8>
  %2 = tile.load %c[%i] strides [1] : !tile.ptr<i16> -> vector<4xi16>
  %3 = tile.load %d[%i] strides [1] : !tile.ptr<f64> -> vector<4xf64>
  tile.return
}

// -----

/// Ops on blocks.
// CHECK-LABEL: func.func @blocks
// CHECK-NEXT:    %b = tile.splat %f : f32 to vector<8x32xf32>
// CHECK-NEXT:    %d = tile.transpose %b {permutation = [1, 0]} : vector<8x32xf32> to vector<32x8xf32>
// CHECK-NEXT:    %e = tile.iota {dim = 1} : vector<8x32xi64>
// CHECK-NEXT:    %g = tile.cast "sitofp" %e : vector<8x32xi64> to vector<8x32xf32>
// CHECK-NEXT:    %m = tile.mask %i, %i {dim = 1} : vector<8x32xi1>
// CHECK-NEXT:    %u = tile.compare "olt" %b, %g : vector<8x32xf32>
// CHECK-NEXT:    %w = tile.compare "uge" %e, %e : vector<8x32xi64>
// CHECK-NEXT:    %h = tile.select %m, %b, %g : vector<8x32xf32>
// CHECK-NEXT:    %j = tile.math "fmod" %b, %g {note = "C's"} : vector<8x32xf32>
// CHECK-NEXT:    %k = tile.math "erfc" %f : f32
// CHECK-NEXT:    %l = tile.reduce "add" %b {dims = [1]} : vector<8x32xf32> -> vector<8xf32>
// CHECK-NEXT:    %s = tile.expand %l {dim = 1} : vector<8xf32> to vector<8x32xf32>
// CHECK-NEXT:    %n = tile.reduce "max" %b {dims = [0, 1]} : vector<8x32xf32> -> f32
// CHECK-NEXT:    %q = tile.scan "add" %b {dim = 1} : vector<8x32xf32> -> vector<8x32xf32>
// CHECK-NEXT:    %r = tile.random %seed, %e : vector<8x32xi64> -> vector<8x32xi32>
func.func @blocks(%f: f32, %i: index, %seed: i64) {
  %b = tile.splat %f : f32 to vector<8x32xf32>
  %d = tile.transpose %b {permutation = [1, 0]} : vector<8x32xf32> to vector<32x8xf32>
  %e = tile.iota {dim = 1} : vector<8x32xi64>
  %g = tile.cast "sitofp" %e : vector<8x32xi64> to vector<8x32xf32>
  %m = tile.mask %i, %i {dim = 1} : vector<8x32xi1>
  %u = tile.compare "olt" %b, %g : vector<8x32xf32>
  %w = tile.compare "uge" %e, %e : vector<8x32xi64>
  %h = tile.select %m, %b, %g : vector<8x32xf32>
  %j = tile.math "fmod" %b, %g {note = "C's"} : vector<8x32xf32>
  %k = tile.math "erfc" %f : f32
  %l = tile.reduce "add" %b {dims = [1]} : vector<8x32xf32> -> vector<8xf32>
  %s = tile.expand %l {dim = 1} : vector<8xf32> to vector<8x32xf32>
  %n = tile.reduce "max" %b {dims = [0, 1]} : vector<8x32xf32> -> f32
  %q = tile.scan "add" %b {dim = 1} : vector<8x32xf32> -> vector<8x32xf32>
  %r = tile.random %seed, %e : vector<8x32xi64> -> vector<8x32xi32>
  func.return
}

// -----

/// Infinities and NaN in blocks are written as bits, and read as such.
// CHECK-LABEL: func.func @bits
// CHECK-NEXT:    arith.constant dense<0xff800000> : vector<16xf32>
// CHECK-NEXT:    arith.constant dense<[0xff80, 1.000000e+00]> : vector<2xbf16>
func.func @bits() {
  %a = arith.constant dense<0xFF800000> : vector<16xf32>
  %b = arith.constant dense<[0xFF80, 1.0]> : vector<2xbf16>
  func.return
}

// -----

/// arith and math on blocks, loops that carry blocks.
// CHECK-LABEL: func.func @loop
// CHECK:         %r = scf.for %i = %lo to %hi step %lo iter_args(%acc = %v) -> (vector<16xf32>) {
// CHECK-NEXT:      %e = math.exp %acc : vector<16xf32>
// CHECK-NEXT:      %m = arith.maximumf %e, %acc : vector<16xf32>
func.func @loop(%lo: index, %hi: index, %v: vector<16xf32>) {
  %r = scf.for %i = %lo to %hi step %lo iter_args(%acc = %v) -> (vector<16xf32>) {
    %e = math.exp %acc : vector<16xf32>
    %m = arith.maximumf %e, %acc : vector<16xf32>
    scf.yield %m : vector<16xf32>
  }
  func.return
}

// -----

/// Products of blocks.
// CHECK-LABEL: func.func @dot
// CHECK-NEXT:    tile.dot %a, %b, %c {hint = 1 : i64, tf32} : vector<16x32xbf16>, vector<32x8xbf16> -> vector<16x8xf32>
func.func @dot(%a: vector<16x32xbf16>, %b: vector<32x8xbf16>, %c: vector<16x8xf32>) {
  %d = tile.dot %a, %b, %c {hint = 1, tf32} : vector<16x32xbf16>, vector<32x8xbf16> -> vector<16x8xf32>
  func.return
}
