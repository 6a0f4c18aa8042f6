"""``torch.compile(model, backend="fxc")``: inference, and a training step, against eager."""

import copy

import torch
from torch import nn

model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))
x, target = torch.randn(8, 16), torch.randint(0, 4, (8,))

# Inference. Options are those of fxc.Options: print_ir=True writes the IR after every pass that changed it to stderr.
compiled = torch.compile(model.eval(), backend="fxc", options={"verify_each": True})
with torch.no_grad():
    torch.testing.assert_close(compiled(x), model(x))
print("inference: equal to eager")


# Training: forward and backward graphs both run the pipeline; the optimizer updates the model's own parameters.
def train(network: nn.Module, call: nn.Module, steps: int) -> list[float]:
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(call(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


reference = copy.deepcopy(model).train()
trained = copy.deepcopy(model).train()
torch._dynamo.reset()
expected = train(reference, reference, steps=3)
losses = train(trained, torch.compile(trained, backend="fxc"), steps=3)
print("eager:", expected)
print("fxc:  ", losses)

torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected))
for name, parameter in trained.named_parameters():
    torch.testing.assert_close(parameter, reference.get_parameter(name))
assert losses[-1] < losses[0]
