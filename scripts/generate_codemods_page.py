"""Write docs/codemods.md from the manual pages of the codemods (``--check``: fail if it is not up to date)."""

from __future__ import annotations

import sys
from pathlib import Path

from shardfix.codemod import all_codemods
from shardfix.manual import markdown, summary

PAGE = Path(__file__).parent.parent / "docs" / "codemods.md"
HEAD = """\
# Codemods

<!-- Made by scripts/generate_codemods_page.py from the docstrings under codemods/; edit those. -->

`shardfix --list` names them, `shardfix --explain NAME` prints one of the sections below, and `--select` and `--ignore`
choose. Each example is run on JAX by the tests, before and after.

"""


def page() -> str:
    """The text of docs/codemods.md."""
    own = {name: codemod for name, codemod in all_codemods().items() if codemod.__module__.startswith("shardfix.")}
    index = [f"- [`{name}`](#{name}): {summary(codemod.manual_page())}" for name, codemod in own.items()]
    return (
        HEAD
        + "\n".join(index)
        + "\n\n"
        + "\n".join(f"## {name}\n\n{markdown(codemod)}" for name, codemod in own.items())
    )


def main() -> int:
    if "--check" in sys.argv[1:]:
        return int(not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
