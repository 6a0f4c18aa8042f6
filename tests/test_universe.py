"""Stock xdsl-opt reads, optimises and prints the torch dialect through the ``xdsl.universe`` entry point."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TEXT = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = torch.aten.relu.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %b = torch.aten.relu.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %s = torch.aten.add.Tensor(%a, %b, alpha = 2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}
"""


def test_stock_xdsl_opt(tmp_path: Path) -> None:
    path = tmp_path / "relu.mlir"
    path.write_text(TEXT)
    xdsl_opt = Path(sys.executable).parent / "xdsl-opt"
    done = subprocess.run([xdsl_opt, path, "-p", "fxc-cse"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("torch.aten.relu.default") == 1
    assert "torch.aten.add.Tensor(%a, %a, alpha = 2)" in done.stdout
