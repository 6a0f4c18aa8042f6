// RUN: not fxc-opt %s -p 'apply-patterns{files=%S/inputs/missing.mlir}' 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: not fxc-opt %s -p 'apply-patterns{files=%S/inputs/no_pattern.mlir}' 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not fxc-opt %s -p 'apply-patterns{files=%S/inputs/other_parameters.mlir}' 2>&1 | filecheck %s --check-prefix=PARAMETERS
// RUN: not fxc-opt %s -p 'apply-patterns{files=%S/inputs/other_results.mlir}' 2>&1 | filecheck %s --check-prefix=RESULTS
// RUN: not fxc-opt %s -p 'apply-patterns{files=%S/inputs/a_write.mlir}' 2>&1 | filecheck %s --check-prefix=WRITE
// RUN: not fxc-opt %s -p 'apply-patterns{files=%S/inputs/other_level.mlir}' 2>&1 | filecheck %s --check-prefix=LEVEL
// RUN: not fxc-opt %s -p 'apply-patterns{files=%S/../../../examples/patterns/patterns.py}' 2>&1 | filecheck %s --check-prefix=TEXT

// MISSING: pass apply-patterns failed: cannot read {{.*}}missing.mlir: {{.*}}No such file
// MISSING: hint: did you mean
// NONE: pass apply-patterns failed: {{.*}}no_pattern.mlir has no module with functions @search and @replacement; fxc.register_pattern(...).save writes one
// PARAMETERS: pass apply-patterns failed: @search and @replacement have other parameters
// RESULTS: pass apply-patterns failed: @search has 1 results, but @replacement 2
// WRITE: pass apply-patterns failed: a pattern in a file has no mutation
// LEVEL: pass apply-patterns failed: pattern.level is "composite", "operators" or "joint", not "fused"
// TEXT: pass apply-patterns failed:
func.func @main(%x: tensor<2x3xf32>) {
  fx.output(%x) : (tensor<2x3xf32>) -> ()
}
