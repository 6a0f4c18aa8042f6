"""Dump the IR before and after passes, under banners like those of mlir-opt."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field

from xdsl.dialects.builtin import StringAttr

from fxc.dialects.text.syntax import print_module
from fxc.driver.instrumentation import PassRun


@dataclass
class PrintIR:
    """An instrumentation that dumps IR.

    ``before`` and ``after`` are names of passes to dump around. ``after_change`` dumps only after passes that changed the
    IR: all passes, unless ``after`` names some. ``after_failure_too`` also dumps the IR that a failing pass left, as far as it
    can be printed.
    """

    write: Callable[[str], object]
    before: Set[str] = frozenset()
    after: Set[str] = frozenset()
    before_all: bool = False
    after_all: bool = False
    after_change: bool = False
    after_failure_too: bool = False
    debuginfo: bool = False
    generic: bool = False
    _texts: list[str] = field(default_factory=list[str], init=False, repr=False)

    def before_pass(self, run: PassRun) -> None:
        if self.before_all or run.name in self.before:
            self._dump("Before", run, self._text(run))
        if self.after_change:
            self._texts.append(self._text(run))

    def after_pass(self, run: PassRun) -> None:
        previous = self._texts.pop() if self.after_change else None
        if not (self.after_all or run.name in self.after or (self.after_change and not self.after)):
            return
        text = self._text(run)
        if text != previous:
            self._dump("After", run, text)

    def after_failure(self, run: PassRun, error: BaseException) -> None:
        if self.after_change:
            self._texts.pop()
        if not self.after_failure_too:
            return
        try:
            text = self._text(run)
        except Exception as unprintable:  # a failing pass may leave any IR; the error of the pass is reported
            text = f"// cannot be printed: {type(unprintable).__name__}: {unprintable}\n"
        self._dump("After", run, text, " Failed")

    def _text(self, run: PassRun) -> str:
        return print_module(run.subject, debuginfo=self.debuginfo, generic=self.generic)

    def _dump(self, when: str, run: PassRun, text: str, outcome: str = "") -> None:
        where = ""
        if run.anchor is not None:
            symbol = run.anchor.get_attr_or_prop("sym_name")
            where = f" ('{run.anchor.name}' operation" + (f": @{symbol.data})" if isinstance(symbol, StringAttr) else ")")
        self.write(f"// -----// IR Dump {when} {run.name}{where}{outcome} //----- //\n{text}\n")
