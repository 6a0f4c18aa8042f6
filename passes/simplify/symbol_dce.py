"""Remove private symbols that are unused.

Assumes  verified IR.
Ensures  every remaining private symbol is referenced by a public symbol, by an operation that is not a symbol, or by
         another remaining symbol; functions that only call each other, and unused declarations, are erased.
         Idempotent.
Leaves   public functions; ``fx.module``, ``fx.tensor`` and ``torch.operator``, which are referenced by path; symbols
         whose name is referenced in any property or attribute, also in another module: symbols of equal name in
         several modules are not distinguished.
Cost     one walk.

Before:
    func.func private @unused() {
      func.call @helper() : () -> ()
      func.return
    }
    func.func private @helper() {
      func.return
    }
    func.func private @used()
    func.func @main() {
      func.call @used() : () -> ()
      func.return
    }
After:
    func.func private @used()
    func.func @main() {
      func.call @used() : () -> ()
      func.return
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from fxc.passes.rewriting.unused_symbols import erase_unused_symbols


@dataclass(frozen=True)
class SymbolDcePass(ModulePass):
    name = "symbol-dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        erase_unused_symbols(op)
