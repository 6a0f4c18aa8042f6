"""Contexts in which a capture, or a first run in parts, has no effects on the process of the user."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import warnings
from collections.abc import Callable, Generator, Sequence
from typing import Any

import torch

from fxc.dialects.text.diagnostics import to_stderr
from fxc.runtime.guards import PLAIN


@contextlib.contextmanager
def quiet() -> Generator[None, None, None]:
    """Hold back what PyTorch prints in addition to the error that it raises; print it if the capture succeeds."""
    stderr, disabled = io.StringIO(), logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(stderr):
            warnings.simplefilter("ignore")
            yield
        to_stderr(stderr.getvalue())
    finally:
        logging.disable(disabled)


@contextlib.contextmanager
def unchanged(values: Sequence[Any]) -> Generator[None, None, None]:
    """Restore the tensors, their gradients and the generator on exit, because a capture must not have side effects."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    leaves = [(leaf, leaf.requires_grad, leaf.grad) for leaf in tensors if leaf.is_leaf]
    gradients = [gradient for _, _, gradient in leaves if gradient is not None]
    saved = [(tensor, tensor._version, tensor.detach().clone(), _memory(tensor)) for tensor in (*tensors, *gradients)]
    generator = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(generator)
        with torch.no_grad():
            for tensor, version, before, memory in saved:
                if _memory(tensor) != memory:
                    tensor.set_(*memory)
                same = tensor.layout is not torch.strided or torch.equal(tensor, before)  # batch norm bumps no version
                if tensor._version != version or not same:
                    tensor.copy_(before)
        for leaf, requires_grad, gradient in leaves:
            if leaf.requires_grad != requires_grad:
                leaf.requires_grad_(requires_grad)
            if leaf.grad is not gradient:
                leaf.grad = gradient


def _memory(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Where the elements lie; empty for sparse tensors and subclasses."""
    if tensor.layout is not torch.strided or type(tensor) not in PLAIN:
        return ()
    return tensor.untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride()


@contextlib.contextmanager
def with_forward(module: torch.nn.Module, forward: Callable[..., Any]) -> Generator[None, None, None]:
    """A context in which ``module`` calls ``forward``, with its own signature."""
    before, attributes = module.forward, vars(module)
    own = {name: attributes[name] for name in ("forward",) if name in attributes}
    attributes["forward"] = functools.wraps(before)(forward)
    try:
        yield
    finally:
        del attributes["forward"]
        attributes.update(own)
