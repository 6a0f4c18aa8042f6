"""From the start of a process to a first result: ``python benchmarks/cpu_start.py REQUEST`` is such a process.

Cold is with empty folders for caches and temporary files, warm with those that the cold start left. A saved plan starts with
empty folders, too: what it needs is in its file, and the model is not made. Modules of Python are compiled, as pip leaves them.

Training steps start in such processes, too: seconds of the processor from torch.compile to the end of a first backward,
without those of other processes, such as a C++ compiler. So do commands: ``fxc-opt`` and xDSL's own ``xdsl-opt``.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cpu_rows import Item, Row, failure, item_of

FOLDERS = ("FXC_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TMPDIR")
COMPILED = ("fxc", "fxc frozen", "Inductor", "Inductor frozen")
UNCACHED = "fxc without AOTAutograd's cache"
STEPS = ("fxc", UNCACHED, "Inductor")
SAVED = ("fxc", "fxc frozen")
HERE = Path(__file__).resolve().parent
LIMIT = 1800
"""Seconds that a start may take."""


def all_starts(item: Item) -> Row:
    """Seconds to the first result and the most memory that the process had, ``item.rounds`` times in turns.

    A way that failed once is not tried again.
    """
    row = Row(item.labels)
    for _ in range(item.rounds):
        for way in STEPS if item.section == "step-starts" else ("eager", *COMPILED):
            with TemporaryDirectory() as folder:
                try:
                    _starts_of(row, item, way, Path(folder))
                except Exception as error:  # any compiler may fail in any way; the others are measured all the same
                    row.failed[way] = failure(error)
    return row


COMMANDS = {"--help": ("--help",), "-p cse,dce": ("-p", "cse,dce", "three_lines.mlir")}
"""Arguments of ``fxc-opt`` and ``xdsl-opt`` by name."""
THREE_LINES = "func.func @main(%x: f32) -> f32 {\n  func.return %x : f32\n}\n"


def all_commands(item: Item) -> Row:
    """Seconds of the processor of both commands, ``item.rounds`` times in turns, after a first time that counts no more."""
    row, own = Row(item.labels), Path(sys.executable).parent
    with TemporaryDirectory() as folder:
        (Path(folder) / "three_lines.mlir").write_text(THREE_LINES)
        for number in range(item.rounds + 1):
            for name in ("fxc-opt", "xdsl-opt"):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run([own / name, *COMMANDS[item.name]], cwd=folder, stdout=subprocess.DEVNULL, check=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                if number:
                    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
                    row.times.setdefault(name, []).append(spent)
    return row


def _starts_of(row: Row, item: Item, way: str, folder: Path) -> None:
    if way in row.failed:
        return
    first, second, plan = folder / "first", folder / "second", folder / "plan"
    if way == "eager":
        _note(row, way, start(item, way, first))
        return
    _note(row, f"{way} cold", start(item, way, first))
    _note(row, f"{way} warm", start(item, way, first))
    if way in SAVED and item.section == "starts":
        start(item, way, first, save=plan)
        _note(row, f"{way} plan", start(item, way, second, load=plan))


def _note(row: Row, name: str, found: dict[str, float]) -> None:
    row.times.setdefault(name, []).append(found["seconds"])
    for fact in ("resident memory, MB", "Dynamo loaded"):
        row.facts.setdefault(fact, {})[name] = found[fact]


def start(item: Item, way: str, caches: Path, **plans: Path) -> dict[str, float]:
    """What a process says of itself that runs ``way``, or saves or loads a plan."""
    folders = {name: str(caches / name) for name in FOLDERS}
    for folder in folders.values():
        os.makedirs(folder, exist_ok=True)
    files = {what: str(path) for what, path in plans.items()}
    request = json.dumps({"item": asdict(item), "way": way, "begin": time.monotonic(), **files})
    command = [sys.executable, str(HERE / "cpu_start.py"), request]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, env={**environment, **folders}, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        raise RuntimeError(last_line(done.stderr) or f"the process ended with {done.returncode}")
    return json.loads(last_line(done.stdout))


def last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def _runner(request: dict[str, Any], item: Item, inputs: tuple[Any, ...], dtype: Any) -> Callable[..., Any]:
    if "load" in request:
        import fxc

        return fxc.ExecutionPlan.load(request["load"], trust_kernels=True)
    from cpu_implementations import INFERENCE
    from cpu_models import MODELS

    return INFERENCE[request["way"]](MODELS[item.name].model(dtype, tiny=item.tiny), inputs)


def _first_step(way: str, item: Item, dtype: Any) -> float:
    """Seconds of the processor of a training step by torch.compile."""
    import torch._functorch.config
    from cpu_implementations import inductor, ours_by_dynamo
    from cpu_models import TRAINING

    torch._functorch.config.enable_autograd_cache = way != UNCACHED
    model, inputs = (
        TRAINING[item.name].model(dtype, tiny=item.tiny),
        TRAINING[item.name].inputs(item.batch, dtype, tiny=item.tiny),
    )
    import_module("fxc" if way in STEPS[:2] else "torch._inductor.compile_fx")
    begin = time.process_time()
    (inductor if way == "Inductor" else ours_by_dynamo)(model, inputs)(*inputs).backward()
    return time.process_time() - begin


def _first_result(request: dict[str, Any], item: Item, dtype: Any) -> float:
    import torch
    from cpu_models import MODELS

    inputs = MODELS[item.name].inputs(item.batch, dtype, tiny=item.tiny)
    with torch.no_grad():
        run: Any = _runner(request, item, inputs, dtype)
        run(*inputs)
        seconds = time.monotonic() - request["begin"]
        if "save" in request:
            run.plan.save(request["save"])
    return seconds


def main() -> None:
    import torch

    request = json.loads(sys.argv[1])
    item = item_of(request["item"])
    torch.set_num_threads(item.threads)
    dtype, of_step = getattr(torch, item.dtype), item.section == "step-starts"
    seconds = _first_step(request["way"], item, dtype) if of_step else _first_result(request, item, dtype)
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps({"seconds": seconds, "resident memory, MB": resident, "Dynamo loaded": "torch._dynamo" in sys.modules}))


if __name__ == "__main__":
    main()
