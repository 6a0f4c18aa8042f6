"""Write a GraphModule as an importable folder: ``module.py`` and ``weights.safetensors``, nothing pickled."""

# pyright: reportPrivateUsage=false
# PyTorch has no public interface for printing modules.
from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from fxc.errors import FxcError
from fxc.program.weights import save_state

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule

PYTHON_IMPORTS = ("import torch", "import torch.fx._pytree as fx_pytree", "import torch.utils._pytree as pytree")
"""Names that the code of a graph may use in addition to its globals."""

_HEAD = '''"""Written by `fxc translate --to=fx`. `from {package} import Model; Model()(...)` runs it."""

from pathlib import Path

from safetensors.torch import load_file

{imports}
from torch.nn import *


def _set(root, path, value):
    *parents, name = path.split(".")
    for parent in parents:
        root = getattr(root, parent)
    if isinstance(value, torch.nn.Module):
        root.add_module(name, value)
    else:
        setattr(root, name, value)
'''


def write_folder(graph: GraphModule, folder: Path) -> None:
    """Write ``graph``. FxcError for a submodule that cannot be written as Python."""
    folder.mkdir(parents=True, exist_ok=True)
    writer = _Writer()
    writer.graph_class(graph, "Model", "")
    imports = "\n".join(dict.fromkeys([*PYTHON_IMPORTS, *writer.imports]))
    text = _HEAD.format(package=folder.name, imports=imports) + "".join(writer.classes)
    (folder / "module.py").write_text(text, encoding="utf-8")
    (folder / "__init__.py").write_text("from .module import Model\n", encoding="utf-8")
    save_state(writer.state, folder / "weights.safetensors")


class _Writer:
    def __init__(self) -> None:
        self.imports = list[str]()
        self.classes = list[str]()
        self.state: dict[str, torch.Tensor] = {}
        self.first = dict[int, str]()

    def graph_class(self, graph: GraphModule, name: str, prefix: str) -> None:
        """The class of ``graph``; ``prefix`` is its path, as in the names of weights."""
        from torch.fx.graph import _PyTreeCodeGen
        from torch.utils._pytree import treespec_dumps

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = graph.graph.python_code("self")
        from torch.fx.graph_module import _format_import_block
        from torch.package.importer import sys_importer

        self.imports += _format_import_block(code.globals, sys_importer).strip().split("\n")
        body = ["super().__init__()"]
        if not prefix:
            body.append('state = load_file(Path(__file__).with_name("weights.safetensors"))')
        body += self.members(graph, prefix)
        codegen = graph.graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            for field, spec in (("_in_spec", codegen.pytree_info.in_spec), ("_out_spec", codegen.pytree_info.out_spec)):
                if spec is not None:
                    body.append(f"self.{field} = pytree.treespec_loads({treespec_dumps(spec)!r})")
        body.append(f"self.train({graph.training})")
        arguments = "self" if not prefix else "self, state"
        lines = [
            f"class {name}(torch.nn.Module):",
            f"    def __init__({arguments}):",
            *(f"        {line}" for line in body),
            "",
        ]
        lines += [f"    {line}".rstrip() for line in code.src.strip().split("\n")]
        self.classes.append("\n\n" + "\n".join(lines) + "\n")

    def members(self, owner: torch.nn.Module, prefix: str, path: str = "") -> list[str]:
        """Statements that make the tensors and submodules of ``owner``."""
        import torch
        from torch.fx import GraphModule

        lines = list[str]()
        for name, tensor in _tensors(owner).items():
            lines.append(self.tensor(owner, f"{path}{name}", f"{prefix}{path}{name}", name, tensor))
        for name, child in owner.named_children():
            at = f"{path}{name}"
            if isinstance(child, GraphModule):
                made = f"{type(child).__name__}_{prefix}{at}".replace(".", "_")
                self.graph_class(child, made, f"{prefix}{at}.")
                lines.append(f"_set(self, {at!r}, {made}(state))")
            elif type(child) is torch.nn.Module:
                lines += [f"_set(self, {at!r}, torch.nn.Module())", *self.members(child, prefix, f"{at}.")]
            else:
                lines += self.leaf(child, prefix, at)
        return lines

    def leaf(self, module: torch.nn.Module, prefix: str, at: str) -> list[str]:
        """A module of PyTorch, recreated from its ``repr``."""
        if not type(module).__module__.startswith("torch.nn.modules.") or list(module.children()):
            raise FxcError(
                f"the submodule {at} is a {type(module).__name__}, which cannot be written as Python",
                hint="lower it first, as with --pipeline lower-to-torch",
            )
        lines = [f"_set(self, {at!r}, {module!r})"]
        for name, tensor in {**dict(module.named_parameters()), **dict(module.named_buffers())}.items():
            lines.append(self.tensor(module, f"{at}.{name}", f"{prefix}{at}.{name}", name, tensor))
        return [*lines, f"self.get_submodule({at!r}).train({module.training})"]

    def tensor(self, owner: torch.nn.Module, path: str, key: str, name: str, tensor: torch.Tensor) -> str:
        """The statement that sets a tensor; a shared one is stored once in the weights file."""
        import torch

        if id(tensor) not in self.first:
            self.first[id(tensor)] = key
            self.state[key] = tensor.detach().clone()
        value = f"state[{self.first[id(tensor)]!r}]"
        if isinstance(tensor, torch.nn.Parameter):
            value = f"torch.nn.Parameter({value}, requires_grad={tensor.requires_grad})"
        elif name in owner._buffers:
            value = f"torch.nn.Buffer({value}, persistent={name not in owner._non_persistent_buffers_set})"
        return f"_set(self, {path!r}, {value})"


def _tensors(owner: torch.nn.Module) -> dict[str, torch.Tensor]:
    import torch

    plain = {name: value for name, value in vars(owner).items() if isinstance(value, torch.Tensor)}
    own = {**owner._parameters, **owner._buffers, **plain}
    return {name: tensor for name, tensor in own.items() if tensor is not None}
