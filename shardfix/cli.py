"""The command line: options become a request, a request is executed. No logic.

What is imported at the top is what ``shardfix --version`` pays for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from shardfix import __version__
from shardfix.settings import Rank0Style, Settings, UsageProblem, chosen_codemods

if TYPE_CHECKING:
    from shardfix.application import Mode
    from shardfix.reporters.base import Reporter

__all__ = ["app", "main"]

STDIN = "-"

EPILOG = """
[bold]Examples[/bold]

[cyan]shardfix[/cyan]                                       what would change in this folder, as a patch
[cyan]shardfix --write src/ train.py[/cyan]                 show the patch, then write it
[cyan]shardfix --check --select rank0-outputs .[/cyan]      one line a finding, of one codemod
[cyan]shardfix --diff . > fix.patch && git apply fix.patch[/cyan]
[cyan]shardfix --explain rank0-outputs[/cyan]               what it finds, why, and how it repairs it
[cyan]shardfix - --stdin-filename src/a.py < src/a.py[/cyan]

[bold]What is changed[/bold]

A [bold]safe[/bold] fix changes only what the targeted JAX rejects, or says the same in words that every JAX from it on takes.
[bold]Unsafe[/bold] fixes may change what a program means and wait for [cyan]--unsafe[/cyan].
What only you can decide is reported as [bold]manual[/bold], with the choices.

[bold]Exit codes[/bold]

0: nothing to fix (with --write: nothing left). 1: findings (with --write: findings left).
2: wrong usage, or a file could not be processed.
"""

app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)


class OutputFormat(StrEnum):
    """How findings are shown."""

    TEXT = "text"
    JSON = "json"


class ColorChoice(StrEnum):
    """When to colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"shardfix {__version__}")
        raise typer.Exit


@app.command(epilog=EPILOG)
def shardfix(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATHS]...", help="Files and folders; '-' is standard input.", show_default="."),
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show the repairs as a patch on stdout. The default.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Show the same patch, then write the files.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Show one line a finding on stdout; for CI.")] = False,
    select: Annotated[
        list[str] | None, typer.Option("--select", metavar="NAMES", help="Run only these codemods (comma-separated).")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="NAMES", help="Do not run these codemods.")
    ] = None,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Apply also fixes that may change what the program means.")
    ] = False,
    target_jax: Annotated[
        str | None,
        typer.Option(
            "--target-jax",
            metavar="VERSION",
            help="The oldest JAX that the code must still run on.",
            show_default="what the project declares, else the newest",
        ),
    ] = None,
    rank0_style: Annotated[
        Rank0Style, typer.Option("--rank0-style", help="How a scalar output gets its axis: keepdims=True or [None].")
    ] = Rank0Style.AUTO,
    output_format: Annotated[
        OutputFormat, typer.Option("--output-format", help="The report: for people, or for scripts.")
    ] = OutputFormat.TEXT,
    stdin_filename: Annotated[
        str | None,
        typer.Option("--stdin-filename", metavar="PATH", help="The path that standard input is taken to come from."),
    ] = None,
    list_codemods: Annotated[bool, typer.Option("--list", help="List the codemods and exit.")] = False,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="NAME", help="Show the manual page of a codemod and exit.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on stderr but errors.")] = False,
    color: Annotated[ColorChoice, typer.Option("--color", help="When to colour.")] = ColorChoice.AUTO,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> int:
    """Find JAX sharding code that JAX rejects, or soon will, and rewrite it.

    shardfix reads Python, never runs it, shows a diff, and writes when told to.
    """
    from shardfix.codemod import all_codemods
    from shardfix.reporters.base import Color, Stream

    out = Stream.on(sys.stdout.buffer, Color(color))
    err = Stream.on(sys.stderr.buffer, Color(color))
    available = all_codemods()
    if list_codemods or explain is not None:
        from shardfix.reporters.catalogue import write_list, write_manual_page

        if explain is None:
            write_list(available, out)
            return 0
        (name,) = chosen_codemods([explain], (), available) or ("",)
        write_manual_page(available[name], out)
        return 0

    from shardfix.application import Request, execute, execute_on_text

    mode = _mode(diff, write, check)
    settings = Settings(
        codemods=chosen_codemods(select or (), ignore or (), available),
        unsafe=unsafe,
        target_jax=_target(target_jax),
        rank0_style=rank0_style,
    )
    request = Request(tuple(paths or (".",)), settings, mode)
    reporter = _reporter(output_format)(out, err, mode, quiet)
    if STDIN not in request.paths:
        _only_with_stdin(stdin_filename)
        return execute(request, reporter)
    if len(request.paths) > 1:
        raise UsageProblem("'-' (standard input) cannot be given together with other paths")
    if write and output_format is not OutputFormat.TEXT:
        raise UsageProblem(f"'--write -' prints the repaired text; leave out --output-format {output_format}")
    code, text = execute_on_text(sys.stdin.buffer.read(), stdin_filename or "<stdin>", request, reporter)
    if write:
        out.raw(text)
    return code


def _only_with_stdin(stdin_filename: str | None) -> None:
    if stdin_filename is not None:
        raise UsageProblem("--stdin-filename needs '-' (standard input) as the path")


def _mode(diff: bool, write: bool, check: bool) -> Mode:
    from shardfix.application import Mode

    if check and (write or diff):
        raise UsageProblem(f"--check cannot be given together with {'--write' if write else '--diff'}")
    if write:
        return Mode.WRITE  # which shows the diff as well
    return Mode.CHECK if check else Mode.DIFF


def _target(text: str | None) -> str | None:
    if text is None:
        return None
    from shardfix.target import parse_target

    try:
        return parse_target(text)
    except ValueError as error:
        raise UsageProblem(f"--target-jax: {error}") from None


def _reporter(output_format: OutputFormat) -> type[Reporter]:
    if output_format is OutputFormat.JSON:
        from shardfix.reporters.json import JsonReporter

        return JsonReporter
    from shardfix.reporters.text import TextReporter

    return TextReporter


# Typer may carry its own copy of click; the base class of click's errors has no other name that holds for both.
CLICK_ERROR: type[Exception] = typer.BadParameter.__mro__[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    command = typer.main.get_command(app)
    try:
        code = command.main(list(sys.argv[1:] if arguments is None else arguments), "shardfix", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except UsageProblem as problem:
        return _complain(str(problem))
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted")
        return 130
    except BrokenPipeError:  # the reader of the patch has gone; let the interpreter's own flush at exit go nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except CLICK_ERROR as error:
        return _complain(_one_line(error))


def _one_line(error: Exception) -> str:
    """What click says of a wrong option, with the nearest right word."""
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    return " ".join(text.split()).replace("Value error, ", "")


def _complain(sentence: str) -> int:
    print(f"shardfix: {sentence}", file=sys.stderr)
    return 2
