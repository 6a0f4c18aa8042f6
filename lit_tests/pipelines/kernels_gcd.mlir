// RUN: fxc-opt %s --pass-pipeline='convert-fusion-to-linalg' | filecheck %s --check-prefix=LINALG
// RUN: fxc-opt %s --pass-pipeline='convert-fusion-to-linalg,schedule,tile' | filecheck %s --check-prefix=TILE

/// Euclid's algorithm takes as many steps as an element says: a loop of one element, then of all lanes of a block.
// LINALG-LABEL: func.func @main
// LINALG:         %[[A:.*]] = math.absi %{{.*}} : i64
// LINALG:         %[[B:.*]] = math.absi %{{.*}} : i64
// LINALG:         %[[GOING:.*]] = arith.cmpi ne, %[[A]], %{{.*}} : i64
// LINALG-NEXT:    %{{.*}}, %{{.*}} = tile.iterate %[[GOING]] (%[[X:.*]] = %[[A]], %[[Y:.*]] = %[[B]]) : i1, i64, i64 {
// LINALG-NEXT:      %[[LEFT:.*]] = arith.remsi %[[Y]], %[[X]] : i64
// LINALG-NEXT:      %[[ZERO:.*]] = arith.constant 0 : i64
// LINALG-NEXT:      %[[MORE:.*]] = arith.cmpi ne, %[[LEFT]], %[[ZERO]] : i64
// LINALG-NEXT:      tile.next %[[MORE]], %[[LEFT]], %[[X]] : i1, i64, i64

/// What does not change is outside of the loop; lanes behind the end of the tensor do not go on.
// TILE-LABEL: tile.kernel @kernel_0
// TILE:         %[[NONZERO:.*]] = tile.compare "ne" %{{.*}}, %[[ZERO:.*]] : vector<[[LANES:.*]]xi64>
// TILE:         %[[GOING:.*]] = arith.andi %[[NONZERO]], %{{.*}} : vector<[[LANES]]xi1>
// TILE-NEXT:    %{{.*}}, %{{.*}} = tile.iterate %[[GOING]] (%[[X:.*]] = %{{.*}}, %[[Y:.*]] = %{{.*}}) : vector<[[LANES]]xi1>, vector<[[LANES]]xi64>, vector<[[LANES]]xi64> {
// TILE-NEXT:      %[[LEFT:.*]] = arith.remsi %[[Y]], %[[X]] : vector<[[LANES]]xi64>
// TILE-NEXT:      %[[MORE:.*]] = tile.compare "ne" %[[LEFT]], %[[ZERO]] : vector<[[LANES]]xi64>
// TILE-NEXT:      tile.next %[[MORE]], %[[LEFT]], %[[X]] : vector<[[LANES]]xi1>, vector<[[LANES]]xi64>, vector<[[LANES]]xi64>
builtin.module attributes {fxc.target = #target.gpu<arch = "sm_90">} {
func.func @main(%x: tensor<3x7xi64>, %y: tensor<7xi64>) -> tensor<3x7xi64> {
  %g = fusion.group ({
    %d = torch.aten.gcd.default(%x, %y) : (tensor<3x7xi64>, tensor<7xi64>) -> tensor<3x7xi64>
    fusion.yield %d : tensor<3x7xi64>
  }) -> tensor<3x7xi64>
  fx.output(%g) : (tensor<3x7xi64>) -> ()
}
}
