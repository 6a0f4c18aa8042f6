"""fxc-opt: run passes on a text file, as mlir-opt does. IR goes to stdout, everything else to stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from fxc.dialects.target import target_names
from fxc.dialects.text.diagnostics import to_stderr
from fxc.driver.instrumentation import PrintIR, Statistics
from fxc.driver.pass_options import option_names
from fxc.driver.registry import PassRegistry
from fxc.driver.timing import Timer
from fxc.errors import InputError, PipelineError, nearest
from fxc.passes.rewriting.remarks import ALIASES, remarking
from fxc.runtime.units import duration
from fxc.tools.command_line import (
    EXIT_CODES,
    complain,
    complete_pass,
    complete_pipeline,
    complete_target,
    exit_code,
    is_terminal,
    pass_names,
    print_error,
    progress,
    read_text,
    run_in_process,
    version_option,
    write_output,
)
from fxc.tools.emitters import EMITTERS, EmitOptions
from fxc.tools.list_passes import listing
from fxc.tools.opt_driver import DriverOptions, drive


class GroupedOption(click.Option):
    """An option listed under the heading ``group``."""

    def __init__(self, *args: Any, group: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


class GroupedCommand(click.Command):
    """Prints options by group, in the order in which the groups first appear. Each pass is an option, too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """``--NAME=OPTIONS`` for a pass or named pipeline is ``-p NAME{OPTIONS}``, as in mlir-opt.

        ``--NAME=VALUE`` sets the first option of a pass.
        """
        known = {flag for parameter in self.get_params(ctx) for flag in (*parameter.opts, *parameter.secondary_opts)}
        may_be_loaded = any(arg.startswith("--load-pass") for arg in args)
        rewritten = list[str]()
        for arg in args:
            flag, _, options = arg.partition("=")
            name = flag.removeprefix("--")
            is_pass = arg.startswith("--") and flag not in known and (may_be_loaded or name in pass_names())
            rewritten += ["-p", _step(name, options)] if is_pass else [arg]
        return super().parse_args(ctx, rewritten)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                groups.setdefault(getattr(parameter, "group", "Other"), []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records, col_max=34)


def _step(name: str, options: str) -> str:
    """The text of a pass or named pipeline with ``options``, or with a value of its first option."""
    registry = PassRegistry()
    if options and "=" not in options and name in registry:
        names = option_names(registry.get(name))
        if names and options not in names:
            options = f"{names[0]}={options}"
    return f"{name}{{{options}}}" if options else name


def _joined(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> str:
    return ",".join(texts)


_INPUT = partial(click.option, cls=GroupedOption, group="Input and output")
_PASSES = partial(click.option, cls=GroupedOption, group="Passes")
_CHECKS = partial(click.option, cls=GroupedOption, group="Checking")
_LOOK = partial(click.option, cls=GroupedOption, group="Inspection")

HELP = f"""Run passes on an IR file (MLIR text) and print the result.

FILE is read from stdin if it is omitted or "-". {EXIT_CODES}

\b
Examples:
  fxc-opt model.mlir                                parse, verify, print
  fxc-opt model.mlir -p canonicalize,cse            two passes
  fxc-opt model.mlir --canonicalize --cse           the same: each pass and named pipeline is an option
  fxc-opt model.mlir --unroll-loops="factor=4"      a pass with its options
  fxc-opt model.mlir --apply-patterns=silu.mlir     a pass with a value of its first option
  fxc-opt model.mlir -p 'builtin.module(inline,func.func(cse,unroll-loops{{factor=4}}))'
                                                    nested, with an option
  fxc-opt model.mlir -p simplify --print-ir-after-change --timing
                                                    a named pipeline, and what each pass did
  fxc-opt bad.mlir -p simplify --crash-reproducer=crash.mlir
  fxc-opt --run-reproducer crash.mlir               replay the failure
  fxc-opt --list-passes                             all passes and named pipelines
"""


# fmt: off
@click.command("fxc-opt", cls=GroupedCommand, help=HELP,
               context_settings={"max_content_width": 110, "help_option_names": ["-h", "--help"]})
@click.argument("file", default="-", type=click.Path(allow_dash=True))
@_INPUT("-o", "output", metavar="FILE", type=click.Path(dir_okay=False), help="Write the IR here, not to stdout.")
@_INPUT("--emit", default="mlir", type=click.Choice(list(EMITTERS)), show_default=True, help="What to write.")
@_INPUT("--split-input-file", is_flag=True,
        help='Treat the parts between "// -----" lines as separate files. Each is processed, also where one fails.')
@_INPUT("--print-debuginfo", is_flag=True, help="Print locations: FX node names, module paths, source lines.")
@_INPUT("--print-op-generic", is_flag=True, help="Print every op in MLIR's generic form.")
@_INPUT("--allow-unregistered-dialect", is_flag=True, help="Accept operations of unregistered dialects, in generic form.")
@_PASSES("-p", "--pass-pipeline", "pipeline", multiple=True, metavar="PIPELINE", callback=_joined,
         shell_complete=complete_pipeline,
         help="Passes to run, in order: names, nested in op names, with options. May be repeated.")
@_PASSES("--target", metavar="NAME", shell_complete=complete_target, help=f"Machine to generate kernels for: {target_names()}.")
@_PASSES("--load-pass", multiple=True, metavar="FILE", type=click.Path(),
         help="Load a pass from this Python file, which is executed. May be repeated.")
@_PASSES("--list-passes", is_flag=True, help="Print the passes with their options, and the named pipelines.")
@_CHECKS("--verify-each/--no-verify-each", default=True,
         help="Verify the IR after each pass (the default), or only at the end.")
@_CHECKS("--verify-diagnostics", is_flag=True,
         help='Compare the errors with "// expected-error@+1 {{text}}" comments.')
@_CHECKS("--check-numerics", is_flag=True,
         help="Run the module before and after each pass and compare the numbers. Loads PyTorch.")
@_CHECKS("--crash-reproducer", metavar="FILE", type=click.Path(dir_okay=False),
         help="Write a file that reproduces the failure when a pass fails.")
@_CHECKS("--run-reproducer", is_flag=True, help="Run the pipeline recorded in FILE, a reproducer.")
@_LOOK("--print-ir-before", multiple=True, metavar="PASS", shell_complete=complete_pass,
       help="Dump the IR before this pass. May be repeated.")
@_LOOK("--print-ir-after", multiple=True, metavar="PASS", shell_complete=complete_pass,
       help="Dump the IR after this pass. May be repeated.")
@_LOOK("--print-ir-before-all", is_flag=True, help="Dump the IR before every pass.")
@_LOOK("--print-ir-after-all", is_flag=True, help="Dump the IR after every pass.")
@_LOOK("--print-ir-after-change", is_flag=True, help="Dump the IR after passes that changed it.")
@_LOOK("--print-ir-after-failure", is_flag=True, help="Dump the IR when a pass fails.")
@_LOOK("--timing", is_flag=True, help="Print the time spent in each pass.")
@_LOOK("--statistics", is_flag=True, help="Print ops before and after each pass, and what the pass counted.")
@_LOOK("--remarks", multiple=True, metavar="PASS", shell_complete=complete_pass,
       help="Print the transformations that this pass missed, and why. May be repeated.")
@_LOOK("--traceback", is_flag=True, help="Print Python's traceback with an error.")
@version_option
@click.pass_context
def command(click_context: click.Context, **arguments: Any) -> None:
    click_context.exit(_run(arguments))
# fmt: on


def main() -> None:
    """The entry point of the console script."""
    sys.exit(_main(None))


def run(argv: Sequence[str], stdin_text: str = "") -> tuple[int, str, str]:
    """Run fxc-opt inside this process: exit code, stdout, stderr."""
    return run_in_process(_main, argv, stdin_text)


def _main(argv: list[str] | None) -> int:
    return exit_code(command, argv, "fxc-opt")


def _run(arguments: dict[str, Any]) -> int:
    registry = PassRegistry()
    for path in arguments["load_pass"]:
        registry = registry.with_file(Path(path))
    if arguments["list_passes"]:
        print(listing(registry))
        return 0
    timer, statistics = Timer(), Statistics()
    print_ir = _print_ir(arguments, registry)
    watchers = (statistics, print_ir) if arguments["statistics"] else (print_ir,)
    remarks = _known([ALIASES.get(str(name), str(name)) for name in arguments["remarks"]], registry, "to explain")
    options = _driver_options(arguments, registry)
    text = read_text(arguments["file"])
    with progress(f"running {options.pipeline or 'fxc-opt'}"), remarking(remarks, to_stderr):
        outcome = drive(options, text, timer, watchers)
    if not outcome.failed or arguments["output"] in (None, "-"):  # as mlir-opt does: no file of some parts only
        write_output(arguments["output"], outcome.output)
    for error in outcome.errors:
        complain(error, arguments["traceback"])
    for problem in outcome.problems:
        print_error(problem)
    if arguments["timing"]:
        print_timing(timer)
    if arguments["statistics"]:
        print_statistics(statistics)
    return 1 if outcome.failed else 0


def _driver_options(arguments: dict[str, Any], registry: PassRegistry) -> DriverOptions:
    if arguments["run_reproducer"] and arguments["pipeline"]:
        raise InputError("--run-reproducer takes the pipeline from the file", hint="leave out --pass-pipeline")
    crash, file = arguments["crash_reproducer"], arguments["file"]
    return DriverOptions(
        filename="<stdin>" if file == "-" else file,
        pipeline=arguments["pipeline"],
        target=arguments["target"],
        registry=registry,
        emit=arguments["emit"],
        emit_options=EmitOptions(arguments["print_debuginfo"], arguments["print_op_generic"]),
        split_input_file=arguments["split_input_file"],
        verify_diagnostics=arguments["verify_diagnostics"],
        verify_each=arguments["verify_each"],
        allow_unregistered_dialect=arguments["allow_unregistered_dialect"],
        run_reproducer=arguments["run_reproducer"],
        crash_reproducer=Path(crash) if crash else None,
        inputs=() if file == "-" else (Path(file),),
        check_numerics=arguments["check_numerics"],
    )


def _print_ir(arguments: dict[str, Any], registry: PassRegistry) -> PrintIR:
    return PrintIR(
        write=to_stderr,
        before=_known(arguments["print_ir_before"], registry, "to print around"),
        after=_known(arguments["print_ir_after"], registry, "to print around"),
        before_all=arguments["print_ir_before_all"],
        after_all=arguments["print_ir_after_all"],
        after_change=arguments["print_ir_after_change"],
        after_failure_too=arguments["print_ir_after_failure"],
        debuginfo=arguments["print_debuginfo"],
        generic=arguments["print_op_generic"],
    )


def _known(names: Sequence[str], registry: PassRegistry, purpose: str) -> frozenset[str]:
    """``names`` as a set. PipelineError for a name that is not a pass."""
    for name in names:
        if name not in registry:
            hint = nearest(name, registry.names()) or "fxc-opt --list-passes lists them"
            raise PipelineError(f"there is no pass {name} {purpose}", hint=hint)
    return frozenset(names)


# tables on stderr: rendered by rich on a terminal, plain text elsewhere


def print_timing(timer: Timer) -> None:
    rows = [
        (name, duration(wall), f"{share:.0%}", duration(cpu), str(calls) if calls else "")
        for name, wall, share, cpu, calls in timer.rows()
    ]
    print_table("timing", ("", "wall", "share", "cpu", "calls"), rows, numbers=(1, 2, 3, 4))


def print_statistics(statistics: Statistics) -> None:
    print_table("statistics", ("pass", "ops before", "ops after", "counters"), statistics.rows(), numbers=(1, 2))


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int]) -> None:
    """Print a table. ``numbers`` are the right-aligned columns."""
    if is_terminal():
        _print_rich(title, header, rows, numbers)
        return
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    print(f"=== {title} ===", file=sys.stderr)
    for row in (header, *rows):
        cells = (
            text.rjust(width) if column in numbers else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join(cells).rstrip(), file=sys.stderr)


def _print_rich(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column, name in enumerate(header):
        table.add_column(name, justify="right" if column in numbers else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    Console(stderr=True).print(table)
