"""Trace ``flex_attention`` as the operators of its implementation for eager mode: products, elementwise ones and a softmax."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from torch._C import DispatchKey
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

_MODULE = "torch._higher_order_ops.flex_attention"


@contextmanager
def attention_by_scores() -> Generator[None, None, None]:
    """A context in which tracers and autograd see the operators that compute the scores.

    As an operator with regions it calls these under ``vmap``, where kernels cannot run. A model that uses it has imported its
    module.
    """
    module: Any = sys.modules.get(_MODULE)
    if module is None:
        yield
        return

    def traced(mode: Any, *args: Any, **kwargs: Any) -> Any:
        with mode:
            return module.sdpa_dense(*args, **kwargs)

    tables = module.flex_attention.py_kernels, module.flex_attention.python_key_table
    plain = [dict(table) for table in tables]
    tables[0][DispatchKey.Autograd] = module.sdpa_dense
    tables[1][ProxyTorchDispatchMode] = traced
    module.flex_attention._dispatch_cache.clear()
    try:
        yield
    finally:
        for table, known in zip(tables, plain, strict=True):
            table.update(known)
        module.flex_attention._dispatch_cache.clear()
