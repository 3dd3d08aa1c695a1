"""Write the table of codemods into README.md, from the codemods themselves."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from shardfix.codemod import all_codemods
from shardfix.manual import summary

README = Path(__file__).parent.parent / "README.md"
PLACE = re.compile(r"(<!-- codemods: begin[^\n]*-->\n).*?(<!-- codemods: end -->)", re.DOTALL)


def table() -> str:
    """One row a codemod."""
    rows = ["| codemod | finds | JAX |", "|---|---|---|"]
    for name, codemod in all_codemods().items():
        finds = summary(codemod.manual_page()).replace("|", "\\|")
        since = {"deprecated": codemod.deprecated, "removed": codemod.removed}
        versions = ", ".join(f"{word} {version}" for word, version in since.items() if version)
        rows.append(f"| `{name}` | {finds} | {versions} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    """Write the table; with ``--check`` only say whether it is up to date."""
    before = README.read_text(encoding="utf-8")
    after = PLACE.sub(lambda match: match[1] + table() + match[2], before)
    if "--check" in sys.argv[1:]:
        return int(before != after)
    README.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
