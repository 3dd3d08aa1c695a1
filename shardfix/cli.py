"""The command line: options become a request, a request is executed. No logic.

What is imported at the top is what ``shardfix --version`` pays for.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardfix import __version__, completion
from shardfix.settings import Rank0Style, UsageProblem, codemod_named, codemods_named

if TYPE_CHECKING:
    from shardfix.application import Mode
    from shardfix.reporters.base import Reporter

__all__ = ["app", "main"]

STDIN = "-"
TROUBLE = 2
"""As :attr:`shardfix.outcomes.ExitCode.TROUBLE`, which costs more to import than the error is worth."""

EPILOG = """
[bold]Examples[/bold]

[cyan]shardfix[/cyan]
  what would change in this folder, as a patch

[cyan]shardfix --write src/ train.py[/cyan]
  show the patch, then write it

[cyan]shardfix --check --select rank0-outputs .[/cyan]
  one line a finding, of one codemod

[cyan]shardfix src/ > fix.patch; git apply fix.patch[/cyan]
  have the patch reviewed first

[cyan]shardfix --explain rank0-outputs[/cyan]
  what it finds, why JAX minds, and how it is repaired

[bold]What is changed[/bold]

A [green]safe[/green] fix changes only what the targeted JAX rejects, or says the same in words that every JAX from it on takes.
An [yellow]unsafe[/yellow] fix may change what the program means, and waits for --unsafe.
What only you can decide is reported as [red]manual[/red], with the choices.

[bold]Exit codes[/bold]

0  nothing to fix; with --write: nothing is left
1  findings; with --write: findings are left
2  wrong usage, or a file could not be processed
"""

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)


class OutputFormat(StrEnum):
    """How findings are shown."""

    TEXT = "text"
    JSON = "json"
    JSON_LINES = "json-lines"
    SARIF = "sarif"
    GITHUB = "github"
    GITLAB = "gitlab"
    JUNIT = "junit"
    HTML = "html"


class ColorChoice(StrEnum):
    """When to colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"shardfix {__version__}")
        raise typer.Exit


MODE, CODEMODS, CONFIGURATION = "What to do", "What to fix", "Configuration"
REPORT, ABOUT = "How to show it", "About"


@app.command(epilog=EPILOG)
def shardfix(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATHS", help="Files and folders; '-' is standard input.", show_default="."),
    ] = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show the repairs as a patch (the default).", rich_help_panel=MODE)
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Show the same patch, then write the files.", rich_help_panel=MODE)
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Show one line a finding; for CI.", rich_help_panel=MODE)
    ] = False,
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive",
            "-i",
            help="Ask for each repair, safe or not, and write those that are accepted.",
            rich_help_panel=MODE,
        ),
    ] = False,
    add_ignores: Annotated[
        bool,
        typer.Option(
            "--add-ignores",
            help="Write a comment '# shardfix: ignore[...]' at each finding, and change nothing else.",
            rich_help_panel=MODE,
        ),
    ] = False,
    traceback: Annotated[
        str | None,
        typer.Option(
            "--traceback",
            metavar="FILE",
            help="Start from an error that JAX printed, in a log of any kind ('-' is standard input); PATHS is where the "
            "sources are.",
            rich_help_panel=MODE,
        ),
    ] = None,
    choose: Annotated[
        int | None,
        typer.Option(
            "--choose",
            metavar="NUMBER",
            help="The repair to make where --traceback leaves a choice.",
            min=1,
            rich_help_panel=MODE,
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="COMMAND",
            help="Run COMMAND (in quotes, or at the end after --) on eight simulated CPU devices, repair what is certain, "
            "and run it again until it passes; without --write in a copy of this folder.",
            rich_help_panel=MODE,
        ),
    ] = None,
    lsp: Annotated[
        bool,
        typer.Option(
            "--lsp",
            help="Serve an editor over standard input and output (Language Server Protocol).",
            rich_help_panel=MODE,
        ),
    ] = False,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit", metavar="SECONDS", help="How long each --run may take.", min=0, rich_help_panel=MODE
        ),
    ] = None,
    files_from: Annotated[
        str | None,
        typer.Option(
            "--files-from",
            metavar="FILE",
            help="Take further PATHS from FILE ('-' is standard input), a newline or a NUL after each.",
            rich_help_panel=MODE,
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard", metavar="K/N", help="Take the K-th of N parts of the files; for CI.", rich_help_panel=MODE
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            "--dask",
            metavar="ADDRESS",
            help="Have the workers of the Dask scheduler at ADDRESS do the work.",
            rich_help_panel=MODE,
        ),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Take nothing from earlier runs, and keep nothing.", rich_help_panel=MODE)
    ] = False,
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select",
            metavar="NAMES",
            help="Run only these codemods (comma-separated).",
            autocompletion=completion.codemods,
            rich_help_panel=CODEMODS,
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="NAMES",
            help="Do not run these codemods.",
            autocompletion=completion.codemods,
            rich_help_panel=CODEMODS,
        ),
    ] = None,
    unsafe: Annotated[
        bool | None,
        typer.Option(
            "--unsafe/--no-unsafe",
            help="Apply also fixes that may change what the program means.",
            show_default="no",
            rich_help_panel=CODEMODS,
        ),
    ] = None,
    target_jax: Annotated[
        str | None,
        typer.Option(
            "--target-jax",
            metavar="VERSION",
            help="The oldest JAX that the code must still run on.",
            show_default="what the project declares, else the newest",
            autocompletion=completion.versions,
            rich_help_panel=CODEMODS,
        ),
    ] = None,
    rank0_style: Annotated[
        Rank0Style | None,
        typer.Option(
            "--rank0-style",
            help="How a scalar output gets its axis: keepdims=True or [None].",
            show_default="auto",
            rich_help_panel=CODEMODS,
        ),
    ] = None,
    isolated: Annotated[
        bool,
        typer.Option(
            "--isolated", help="Read no [tool.shardfix] of any pyproject.toml.", rich_help_panel=CONFIGURATION
        ),
    ] = False,
    force_exclude: Annotated[
        bool,
        typer.Option(
            "--force-exclude",
            help="Pass over what the configuration excludes also where PATHS names it; for hooks.",
            rich_help_panel=CONFIGURATION,
        ),
    ] = False,
    show_settings: Annotated[
        bool,
        typer.Option(
            "--show-settings",
            help="Show the settings for each of PATHS, and where they come from.",
            rich_help_panel=CONFIGURATION,
        ),
    ] = False,
    output_format: Annotated[
        OutputFormat,
        typer.Option(
            "--output-format",
            help="The report: for people, for scripts, or for what shows results.",
            rich_help_panel=REPORT,
        ),
    ] = OutputFormat.TEXT,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing on stderr but errors.", rich_help_panel=REPORT)
    ] = False,
    color: Annotated[
        ColorChoice, typer.Option("--color", help="When to colour.", rich_help_panel=REPORT)
    ] = ColorChoice.AUTO,
    statistics: Annotated[
        bool,
        typer.Option("--statistics", help="Count the findings of each codemod at the end.", rich_help_panel=REPORT),
    ] = False,
    stats: Annotated[
        bool,
        typer.Option(
            "--stats", help="Tell at the end where the time went, by stage and codemod.", rich_help_panel=REPORT
        ),
    ] = False,
    patch_file: Annotated[
        str | None,
        typer.Option("--patch-file", metavar="FILE", help="Write the patch to FILE as well.", rich_help_panel=REPORT),
    ] = None,
    exit_zero: Annotated[
        bool,
        typer.Option("--exit-zero", help="End with 0 also where there are findings.", rich_help_panel=REPORT),
    ] = False,
    stdin_filename: Annotated[
        str | None,
        typer.Option(
            "--stdin-filename",
            metavar="PATH",
            help="The path that standard input is taken to come from.",
            rich_help_panel=REPORT,
        ),
    ] = None,
    list_codemods: Annotated[bool, typer.Option("--list", help="List the codemods.", rich_help_panel=ABOUT)] = False,
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain",
            metavar="NAME",
            help="Show the manual page of a codemod, or of an error that --traceback names.",
            autocompletion=completion.pages,
            rich_help_panel=ABOUT,
        ),
    ] = None,
    explain_value: Annotated[
        str | None,
        typer.Option(
            "--explain-value",
            metavar="FILE:LINE",
            help="Show what is known of the mapped function at that line, output by output.",
            rich_help_panel=ABOUT,
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version.", callback=_print_version, is_eager=True, rich_help_panel=ABOUT
        ),
    ] = False,
) -> Callable[[], int]:
    """Find JAX sharding code that JAX rejects, or soon will, and rewrite it.

    shardfix reads Python, never runs it, shows a diff, and writes when told to.
    """
    from shardfix.codemod import all_codemods
    from shardfix.reporters.base import Color, Stream

    out = Stream.on(sys.stdout.buffer, Color(color))
    err = Stream.on(sys.stderr.buffer, Color(color))
    available = all_codemods()
    if explain is not None:
        from shardfix.reporters.catalogue import write_manual_page, write_page_of_error
        from shardfix.tracebacks.known import table

        if error := table().get(explain.strip()):
            return lambda: write_page_of_error(error, available, out)
        name = codemod_named(explain, available)
        return lambda: write_manual_page(available[name], out)
    if explain_value is not None:
        from shardfix.reporters.account import write_account

        return lambda: write_account(explain_value, out)
    if list_codemods:
        from shardfix.reporters.catalogue import write_list

        return lambda: write_list(available, out)

    from shardfix.application import Request, Shard, execute, execute_on_text, paths_in
    from shardfix.configuration import CommandLine, Configurations

    said = CommandLine(
        codemods_named(select or (), available),
        codemods_named(ignore or (), available),
        unsafe,
        _target(target_jax),
        rank0_style,
    )
    configurations = Configurations(said, available, isolated)
    if files_from is not None:
        if STDIN in (paths or ()):
            raise UsageProblem("'-' (standard input) cannot be given together with --files-from")
        paths = [*(paths or ()), *paths_in(_bytes_of(files_from))]
    request = Request(
        (".",) if paths is None else tuple(paths),
        configurations,
        _mode(diff, write, check),
        force_exclude,
        statistics,
        exit_zero,
        not no_cache,
        None if shard is None else Shard.parse(shard),
        stats,
        dask,
        patch_file,
    )
    if show_settings:
        from shardfix.reporters.configuration import write_settings

        return lambda: write_settings(request.paths, configurations, out)
    if add_ignores:
        from shardfix.ignoring import write_ignores

        if check or diff or write or run is not None or traceback is not None or STDIN in request.paths:
            raise UsageProblem("--add-ignores goes with PATHS and the choice of codemods only")
        return lambda: write_ignores(request, out, err, quiet=quiet)
    if lsp:
        try:
            from shardfix.editor.server import serve
        except ModuleNotFoundError:
            raise UsageProblem("--lsp needs the extra: pip install 'shardfix[lsp]'") from None
        if paths or check or diff or write or run is not None or traceback is not None or interactive:
            raise UsageProblem("--lsp takes no PATHS, and goes with the choice of codemods only")
        return lambda: serve(lambda: Configurations(said, available, isolated))
    if interactive:
        from shardfix.review import check_terminal, review

        if check or diff or write or run is not None or traceback is not None or STDIN in request.paths:
            raise UsageProblem("--interactive goes with PATHS and the choice of codemods only")
        check_terminal()
        return lambda: review(request, out, err)
    if run is not None:
        from shardfix.rerun import Command, rerun

        if check or paths or traceback is not None or output_format is not OutputFormat.TEXT:
            raise UsageProblem("--run takes no PATHS, and goes with --write and --diff only")
        if not run.strip():
            raise UsageProblem("--run needs a command")
        return lambda: rerun(Command(run, time_limit), request.settings, out, err, write=write)
    if time_limit is not None:
        raise UsageProblem("--time-limit goes with --run only")
    if choose is not None and traceback is None:
        raise UsageProblem("--choose goes with --traceback only")
    if traceback is not None:
        from shardfix.from_log import execute_on_log

        if check:
            raise UsageProblem("--check cannot be given together with --traceback")
        if output_format not in (OutputFormat.TEXT, OutputFormat.JSON):
            raise UsageProblem("--traceback has the output formats text and json")
        log = _text_of(traceback)
        return lambda: execute_on_log(log, request, out, err, as_json=output_format is OutputFormat.JSON, choice=choose)
    reporter = _reporter(output_format)(out, err, request.mode, quiet)
    if STDIN not in request.paths:
        if stdin_filename is not None:
            raise UsageProblem("--stdin-filename needs '-' (standard input) as the path")
        return lambda: execute(request, reporter)
    if len(request.paths) > 1:
        raise UsageProblem("'-' (standard input) cannot be given together with other paths")
    if write and output_format is not OutputFormat.TEXT:
        raise UsageProblem(f"'--write -' prints the repaired text; leave out --output-format {output_format}")
    return lambda: execute_on_text(sys.stdin.buffer.read(), stdin_filename or "<stdin>", request, reporter)


def _with_command(arguments: list[str]) -> list[str]:
    """The command that follows ``--run ... --``, as the one value that ``--run`` takes."""
    if "--run" not in arguments or "--" not in arguments:
        return arguments
    at, end = arguments.index("--run"), arguments.index("--")
    follows = arguments[at + 1]
    if end < at or not follows.startswith("-"):
        return arguments  # the command is given in quotes
    import shlex

    words = arguments[end + 1 :]
    command = words[0] if len(words) == 1 else shlex.join(words)
    return [*arguments[:at], *arguments[at + 1 : end], f"--run={command}"]


def _mode(diff: bool, write: bool, check: bool) -> Mode:
    from shardfix.application import Mode

    if check and (write or diff):
        raise UsageProblem(f"--check cannot be given together with {'--write' if write else '--diff'}")
    if write:
        return Mode.WRITE  # which shows the diff as well
    return Mode.CHECK if check else Mode.DIFF


def _bytes_of(path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    except OSError as error:
        raise UsageProblem(f"cannot read '{path}': {error.strerror or error}") from None


def _text_of(path: str) -> str:
    """A log, whatever bytes are in it."""
    data = _bytes_of(path)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):  # what PowerShell's > writes
        return data.decode("utf-16", errors="replace")
    return data.decode(errors="replace")


def _target(text: str | None) -> str | None:
    if text is None:
        return None
    from shardfix.target import parse_target

    try:
        return parse_target(text)
    except ValueError as error:
        raise UsageProblem(f"--target-jax: {error}") from None


def _reporter(output_format: OutputFormat) -> type[Reporter]:
    from importlib import import_module

    name = output_format.value.replace("-", "_")
    reporter: type[Reporter] = getattr(
        import_module(f"shardfix.reporters.{name}"), f"{name.title().replace('_', '')}Reporter"
    )
    return reporter


CLICK_ERROR: type[Exception] = typer.BadParameter.__mro__[2]
"""The base of click's errors, which has no public name: some versions of typer carry a click of their own."""


class _Terminated(BaseException):
    """SIGTERM: as Ctrl-C, let go of everything and clean up on the way out."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    command = typer.main.get_command(app)
    terminated = signal.signal(signal.SIGTERM, _terminate)
    try:
        given = _with_command(list(sys.argv[1:] if arguments is None else arguments))
        action = command.main(given, "shardfix", standalone_mode=False)
        if action == 128 + signal.SIGINT:  # what typer makes of Ctrl-C while it reads the options
            raise KeyboardInterrupt
        code = action() if callable(action) else int(action or 0)  # --help and --version end with a code
        sys.stdout.flush()
        return code
    except UsageProblem as problem:
        return _complain(str(problem), TROUBLE)
    except CLICK_ERROR as error:
        return _complain(_one_line(error), TROUBLE)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", 128 + signal.SIGINT)
    except _Terminated:
        return _complain("interrupted", 128 + signal.SIGTERM)
    except BrokenPipeError:
        # The reader has gone, and what is still in the buffer must go somewhere when the interpreter flushes it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return TROUBLE
    finally:
        signal.signal(signal.SIGTERM, terminated)


def _terminate(*_: object) -> None:
    raise _Terminated


def _one_line(error: Exception) -> str:
    """What click says of a wrong option, which includes the nearest right one."""
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    return " ".join(text.split()).replace("Value error, ", "")


def _complain(sentence: str, code: int) -> int:
    print(f"shardfix: {sentence}", file=sys.stderr)
    return code
