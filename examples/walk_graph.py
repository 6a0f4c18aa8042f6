"""Walk over a program: its ops, their arguments by name, who uses what, and the line of Python that each came from."""

from collections import Counter

import torch
from torch import Tensor, nn

import fxc
from fxc.bridge.location import module_stack, node_name, stack_trace
from fxc.dialects.torch_ops import TorchOp


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return torch.softmax(y + x, dim=-1)


model, x = Net().eval(), torch.randn(2, 8)
program = fxc.capture(model, (x,))

for op in program.main.walk():
    if not isinstance(op, TorchOp):
        continue
    line = (stack_trace(op.location) or "").strip().splitlines()[-1:]
    modules = [path for _, path, _ in module_stack(op.location)]
    print(f"{node_name(op.location)}: {op.operator}, in module {modules[-1] or 'the model'!r}, from {line}")
    for name, value in op.bound().items():
        print(f"    {name} = {value if isinstance(value, list) else getattr(value, 'name_hint', None) or value}")

operators = Counter(op.operator for op in program.main.walk() if isinstance(op, TorchOp))
print(operators.most_common())

weights = [argument for argument in program.main.args if argument.name_hint == "p_body_0_weight"]
users = [use.operation.name for use in weights[0].uses]
print(f"%p_body_0_weight is used by {users}, and holds {tuple(program.state['body.0.weight'].shape)}")

softmax = next(op for op in program.main.walk() if op.name == "torch.aten.softmax.int")
assert isinstance(softmax, TorchOp) and str(softmax.argument("dim")) == "-1 : i64"
assert users == ["torch.aten.linear.default"]
assert "torch.softmax(y + x, dim=-1)" in (stack_trace(softmax.location) or "")
torch.testing.assert_close(fxc.to_fx(program)(x), model(x))
