"""Helpers for tests and for the examples in the documentation: run passes on IR text and compare the result.

assert same_ir(run_pass(before, "inline"), after)
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from fxc.dialects.context import FxcContext
from fxc.dialects.text.syntax import clone_module, parse_module, print_module
from fxc.dialects.verify.verifier import verify
from fxc.driver.runner import run_pipeline
from fxc.measure.clock import times
from fxc.pipelines import parse_pipeline
from fxc.program.program import new_context


def parse(text: str, context: FxcContext | None = None) -> ModuleOp:
    """The verified module of ``text``, read in ``context``, a new one by default. Raises ParseError or VerifyError."""
    module = parse_module(context or new_context(), text)
    verify(module)
    return module


def run_pass(source: str | ModuleOp, pipeline: str, context: FxcContext | None = None) -> str:
    """The text of ``source``, IR text or a module, after ``pipeline``, as ``fxc-opt`` prints it. A module is not changed.

    ``context``: of the module. Raises PipelineError for an unknown pass, PassError where a pass fails.
    """
    context = context or new_context()
    context.times = times
    module = parse(source, context) if isinstance(source, str) else clone_module(source)
    run_pipeline(context, module, parse_pipeline(pipeline))
    return print_module(module)


def same_ir(a: str | ModuleOp, b: str | ModuleOp) -> bool:
    """Whether two modules, ``a`` and ``b``, are equal op for op. Names of values and locations are ignored.

    Raises ParseError or VerifyError for invalid text.
    """
    left, right = (parse(source) if isinstance(source, str) else source for source in (a, b))
    return left.is_structurally_equivalent(right)
