"""Write docs/codemods.md from the manual pages of the codemods (``--check``: fail if it is not up to date)."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

from shardfix.codemod import Codemod, all_codemods
from shardfix.manual import sections, summary

PAGE = Path(__file__).parent.parent / "docs" / "codemods.md"
HEAD = """\
# Codemods

<!-- Made by scripts/generate_codemods_page.py from the docstrings under codemods/; edit those. -->

`shardfix --list` names them, `shardfix --explain NAME` prints one of the sections below, and `--select` and `--ignore`
choose. Each example is run on JAX by the tests, before and after.

"""
CODE = frozenset({"What JAX says", "What shardfix says", "Before", "After"})


def page() -> str:
    """The text of docs/codemods.md."""
    own = {name: codemod for name, codemod in all_codemods().items() if codemod.__module__.startswith("shardfix.")}
    index = [f"- [`{name}`](#{name}): {summary(codemod.manual_page())}" for name, codemod in own.items()]
    return HEAD + "\n".join(index) + "\n\n" + "\n".join(_section(name, codemod) for name, codemod in own.items())


def _section(name: str, codemod: type[Codemod]) -> str:
    text = codemod.manual_page()
    found = sections(text)
    parts = [f"## {name}", summary(text)]
    if versions := _versions(codemod):
        parts.append(f"*{versions}*")
    for heading, body in found.items():
        if heading == "After":
            continue  # shown with what was before
        if heading == "Before" and "After" in found:
            parts += ["**The repair**", f"```diff\n{_diff(body, found['After'])}```"]
        elif heading in CODE:
            parts += [f"**{heading}**", f"```text\n{body}```"]
        else:
            parts += [f"**{heading}**", body.rstrip()]
    return "\n\n".join(parts) + "\n"


def _versions(codemod: type[Codemod]) -> str:
    words = {
        "Deprecated in JAX": codemod.deprecated,
        "removed in JAX": codemod.removed,
        "what replaces it is there since JAX": codemod.replacement_since,
    }
    sentence = ", ".join(f"{word} {version}" for word, version in words.items() if version)
    return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else ""


def _diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), n=100)
    return "".join([*lines][3:])


def main() -> int:
    if "--check" in sys.argv[1:]:
        return int(not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
