"""Write docs/cli.md from the options of the command line (``--check``: fail if it is not up to date)."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from shardfix.cli import ABOUT, EPILOG, app, shardfix

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
HEAD = """\
# The command line

<!-- Made by scripts/generate_cli_page.py from shardfix/cli.py; edit that. -->

```text
shardfix [OPTIONS] [PATHS]...
```

"""


def page() -> str:
    """The text of docs/cli.md."""
    panels: dict[str, list[str]] = {}
    for name, hint in get_type_hints(shardfix, include_extras=True).items():
        option = next(iter(getattr(hint, "__metadata__", ())), None)
        if isinstance(option, OptionInfo):
            panels.setdefault(option.rich_help_panel or "", []).append(_row(name, get_args(hint)[0], option))
    for option in typer.main.get_command(app).params:
        if option.name in ("install_completion", "show_completion"):  # typer's own
            panels[ABOUT].append(f"| `{option.opts[0]}` | {option.help} |")
    parts = [inspect.getdoc(shardfix) or ""]
    for panel, rows in panels.items():
        parts.append("\n".join([f"## {panel}", "", "| option | what it does |", "|---|---|", *rows]))
    return HEAD + "\n\n".join([*parts, *_epilog()]) + "\n"


def _row(name: str, kind: Any, option: OptionInfo) -> str:
    declared = [
        option.default,
        *(option.param_decls or ()),
    ]  # under Annotated the first name stands where a default would
    names = ", ".join(f"`{part}`" for one in declared if isinstance(one, str) for part in one.split("/"))
    types = [part for part in get_args(kind) or (kind,) if part is not type(None)]
    if isinstance(types[0], type) and issubclass(types[0], Enum):
        value = " ".join(f"`{member.value}`" for member in types[0])
    else:
        value = f"`{option.metavar}`" if option.metavar else ""
    default = inspect.signature(shardfix).parameters[name].default
    said = default.value if isinstance(default, Enum) else option.show_default
    text = f"{option.help}{f' Default: {said}.' if isinstance(said, str) else ''}".replace("|", "\\|")
    return f"| {names}{' ' if value else ''}{value} | {text} |"


def _epilog() -> Iterator[str]:
    """The examples and explanations at the end of the help, as Markdown."""
    for paragraph in EPILOG.strip().split("\n\n"):
        lines = re.sub(r"\[/?[a-z]*\]", "", paragraph).splitlines()
        if paragraph.startswith("[bold]"):
            yield f"## {lines[0]}"
        elif paragraph.startswith("[cyan]"):
            yield f"```sh\n{lines[0]}  # {' '.join(line.strip() for line in lines[1:])}\n```"
        elif re.match(r"\d ", lines[0]):
            yield "\n".join(f"- `{line[0]}`: {line[1:].strip()}" for line in lines)
        else:
            yield "\n".join(lines)


def main() -> int:
    if "--check" in sys.argv[1:]:
        return int(not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
