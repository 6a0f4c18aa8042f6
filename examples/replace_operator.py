"""Replace every ReLU of a model by GELU: once with a loop over the ops, once as a pattern.

With torch.fx the loop would set ``node.target``; here an op's class is its operator, so the op is replaced.
"""

import torch
from torch import nn
from xdsl.rewriter import Rewriter

import fxc
from fxc.dialects.torch_ops import torch_op

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8), nn.ReLU()).eval()
x = torch.randn(4, 16)
program = fxc.capture(model, (x,))
print(program)

# A loop over the ops of the entry function.
gelu = torch_op("aten.gelu.default")
changed = program.copy()
for op in list(changed.main.walk()):
    if op.name == "torch.aten.relu.default":
        Rewriter.replace_op(op, gelu.build_call([op.operands[0]], {}, op.result_types, location=op.location))
print(changed)

# The same as a pattern: two functions.
result = fxc.replace_pattern(program, nn.functional.relu, nn.functional.gelu)
print(f"replaced {len(result.matches)}: {[match.replaced for match in result.matches]}")

expected = nn.Sequential(model[0], nn.GELU(), model[2], nn.GELU())(x)
torch.testing.assert_close(fxc.to_fx(changed)(x), expected)
torch.testing.assert_close(fxc.to_fx(result)(x), expected)
torch.testing.assert_close(fxc.to_fx(program)(x), model(x))  # the program that was given is as it was
