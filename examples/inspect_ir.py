"""Look at what the compiler does: IR as text, before and after passes, with source lines; saved, edited and run again."""

import tempfile
from pathlib import Path

import torch
from torch import nn

import fxc

model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 2)).eval()
x = torch.randn(3, 4)

program = fxc.capture(model, (x,), route="symbolic_trace")
print("The graph as symbolic_trace has it, level fx:", program, sep="\n")

lowered = fxc.run_passes(program, "lower-to-torch")
print("After lower-to-torch:", lowered, sep="\n")
print("With node names and source lines:", lowered.text(debuginfo=True), sep="\n")

simple = fxc.run_passes(lowered, "simplify")
print("After simplify, a dropout in eval mode is gone:", simple, sep="\n")

# A file is data: text beside a safetensors file. Reading it runs no code.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.mlir"
    simple.save(path)
    print(*(f"{file.name}: {file.stat().st_size} bytes" for file in sorted(Path(folder).iterdir())), sep="\n")
    path.write_text(path.read_text().replace("torch.aten.relu.default", "torch.aten.tanh.default"))
    edited = fxc.Program.load(path)

compiled = fxc.compile(model, (x,))
print(compiled, compiled.ir, compiled.plan.code, sep="\n")

torch.testing.assert_close(compiled(x), model(x))
torch.testing.assert_close(fxc.to_fx(simple)(x), model(x))
torch.testing.assert_close(fxc.to_fx(edited)(x), model[3](torch.tanh(model[0](x))))
