// RUN: fxc-opt %s -p "set-links{file=%S/inputs/links.json}" | filecheck %s
// RUN: fxc-opt %s -p "set-links{file=%S/inputs/links.json},set-links{file=%S/inputs/near.json}" | filecheck %s --check-prefix=NEAR
// RUN: not fxc-opt %s -p "set-links{file=%S/set_links.mlir}" 2>&1 | filecheck %s --check-prefix=BROKEN
// RUN: not fxc-opt %s -p "set-links{file=%S/inputs/bad_links.json}" 2>&1 | filecheck %s --check-prefix=BAD

// CHECK:       dist.links = [{collective = "all_reduce", ranks = 2 : i64, latency_us = 1.000000e+02 : f64, bytes_per_us = 1.000000e+02 : f64, axis = "", start_us = 0.000000e+00 : f64}, {
// NEAR-NOT:    1.000000e+02
// BROKEN:      fxc measure-links -o FILE writes such a file
// BAD:         'gather'{{.*}} is no link: it has collective, ranks (2 or more), latency_us, bytes_per_us (more than 0), and optional axis and start_us
func.func @main() {
  fx.output() : () -> ()
}
