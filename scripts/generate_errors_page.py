"""Write docs/errors.md from the table of recognised errors (``--check``: fail if it is not up to date)."""

from __future__ import annotations

import sys
from pathlib import Path

from shardfix.codemod import all_codemods
from shardfix.tracebacks import KnownError, table

PAGE = Path(__file__).parent.parent / "docs" / "errors.md"
HEAD = """\
# Errors of JAX that shardfix recognises

<!-- Made by scripts/generate_errors_page.py from shardfix/tracebacks/errors.toml; edit that. -->

Hand a log to `shardfix --traceback err.txt` (or `-` for standard input) and it says which of these it is, where, and what
repairs it. `shardfix --explain NAME` prints one of the sections below. The texts were read from JAX 0.6 to 0.12.

"""


def page() -> str:
    """The text of docs/errors.md."""
    errors = table().errors
    index = [f"- [`{error.name}`](#{error.name}): {error.title}" for error in errors]
    return HEAD + "\n".join(index) + "\n\n" + "\n".join(map(_section, errors))


def _section(error: KnownError) -> str:
    parts = [
        f"## {error.name}",
        f"*{error.title[:1].upper()}{error.title[1:]}.*",
        f"```text\n{error.says}\n```",
        error.means,
    ]
    parts.append("\n".join(f"- {repair}" for repair in error.repairs))
    acting = [f"`{name}`" for name, codemod in all_codemods().items() if error.name in codemod.evidence]
    parts.append(f"Codemods: {', '.join(acting)}." if acting else "No codemod acts on it: the choice is the author's.")
    return "\n\n".join(parts) + "\n"


def main() -> int:
    if "--check" in sys.argv[1:]:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page():
            return 0
        print(f"{PAGE} is not up to date: run {Path(__file__).name}", file=sys.stderr)
        return 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
