"""A pass in a file of its own, outside of the package: used from the library, and from fxc-opt.

fxc-opt model.mlir --load-pass=square_by_mul.py -p square-by-mul,canonicalize --check-numerics
"""

import tempfile
from pathlib import Path

import torch
from torch import Tensor

import fxc
from fxc.tools.fxc_opt import run

PASS = Path(__file__).parent / "square_by_mul.py"


def variance(x: Tensor) -> Tensor:
    return ((x - x.mean()) ** 2).sum() / (x.numel() - 1)


x = torch.randn(100)
program = fxc.capture(variance, (x,))

# From Python: the file, or the class, beside the names of fxc's own passes. Every pass is checked to keep the numbers.
result = fxc.run_passes(program, "square-by-mul,cse", passes=[PASS], options=fxc.Options(check_numerics=True))
print(result)
torch.testing.assert_close(fxc.to_fx(result)(x), x.var())

# From the command line.
with tempfile.TemporaryDirectory() as folder:
    program.save(Path(folder) / "variance.mlir")
    arguments = [f"{folder}/variance.mlir", f"--load-pass={PASS}", "-p", "square-by-mul,cse", "--check-numerics"]
    code, out, errors = run(arguments)
print("fxc-opt", *arguments, f"-> exit code {code}", sep=" ")
print(out)
assert code == 0 and not errors
assert "aten.pow" not in str(result) and "aten.pow" not in out and "aten.pow" in str(program)
