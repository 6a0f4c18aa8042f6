"""Trace ``flex_attention`` as the operators of its implementation for eager mode: products, elementwise ones and a softmax."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch._C import DispatchKey
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

_MODULE, _PUBLIC = "torch._higher_order_ops.flex_attention", "torch.nn.attention.flex_attention"


@contextmanager
def attention_by_scores() -> Generator[None, None, None]:
    """A context in which tracers and autograd see the operators that compute the scores, and their gradients.

    As an operator with regions it calls these under ``vmap``, where kernels cannot run. What indexes a captured tensor is an
    ``autograd.Function`` with the derivative of the operator. A model that uses ``flex_attention`` has imported its module.
    """
    module: Any = sys.modules.get(_MODULE)
    if module is None:
        yield
        return
    dense = {module.flex_attention: module.sdpa_dense, module.flex_attention_backward: module.sdpa_dense_backward}
    with ExitStack() as stack:
        if _PUBLIC in sys.modules:
            from torch._dynamo import _trace_wrapped_higher_order_op as traces  # imports Dynamo

            stack.enter_context(patch.object(traces, "mod_index", torch.ops.aten.index.Tensor))
        for operator, function in dense.items():
            stack.callback(operator._dispatch_cache.clear)
            stack.enter_context(patch.dict(operator.py_kernels, {DispatchKey.Autograd: function}))
            stack.enter_context(patch.dict(operator.python_key_table, {ProxyTorchDispatchMode: partial(_traced, function)}))
            operator._dispatch_cache.clear()
        yield


def _traced(function: Callable[..., Any], mode: Any, *args: Any, **kwargs: Any) -> Any:
    with mode:
        return function(*args, **kwargs)


@contextmanager
def attention_called() -> Generator[None, None, None]:
    """A context in which ``flex_attention`` calls its implementation: a trace records no ``vmap`` inside of an operator."""
    public: Any = sys.modules.get(_PUBLIC)
    with ExitStack() as stack:
        if public is not None:
            parts = {"flex_attention_hop": sys.modules[_MODULE].sdpa_dense, "setup_compilation_env": nullcontext}
            for name, value in {**parts, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG": True}.items():
                stack.enter_context(patch.object(public, name, value))
        yield
