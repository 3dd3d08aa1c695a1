"""Write docs/demo.svg, the picture of a real session in a terminal (``--check``: fail if its words are no longer so)."""

from __future__ import annotations

import html
import os
import re
import shutil
import sys
import tempfile
from io import StringIO
from pathlib import Path

import pexpect
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "demo.svg"
COLUMNS = 112
SESSION = (
    ("shardfix --check examples/", ()),
    ("shardfix --interactive examples/norms.py", ("y",)),
)
"""Commands, and what is typed when they ask."""
QUESTION = r"\]\? "


def session() -> Text:
    """What a terminal shows of the session, in its colours."""
    shown = Text()
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(ROOT / "examples", Path(scratch, "examples"))
        for line, answers in SESSION:
            shown.append("$ ", "bold green").append(line, "bold").append("\n")
            shown.append_text(Text.from_ansi(_printed(line, answers, Path(scratch)))).append("\n\n")
    shown.rstrip()
    return shown


def _printed(line: str, answers: tuple[str, ...], folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}",
        "TERM": "xterm-256color",
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    child = pexpect.spawn(line, cwd=folder, env=environment, encoding="utf-8", dimensions=(40, COLUMNS), timeout=60)
    printed = ""
    for answer in answers:
        child.expect(QUESTION)
        printed += child.before + child.after
        child.sendline(answer)  # which the terminal echoes
    child.expect(pexpect.EOF)
    child.close()
    return "\n".join(_settled(printed + child.before)).rstrip("\n")


def _settled(printed: str) -> list[str]:
    """The lines that are there at the end: a run that takes long draws how far it is, and takes it away again."""
    lines = [""]
    row = 0
    for part in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|\r?\n|\r|[^\x1b\r\n]+", printed):
        if part.endswith("\n"):
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif not part.startswith(("\x1b", "\r")) or part.endswith("m"):
            lines[row] += part
        elif part.endswith("A"):
            row -= int(part[2:-1] or 1)
        elif part.endswith("K"):
            lines[row] = ""
    return lines


def picture() -> str:
    """The session as SVG, with no font from elsewhere."""
    console = Console(width=COLUMNS, record=True, file=StringIO(), force_terminal=True)
    for line in session().split(allow_blank=True):
        for row in line.divide(range(COLUMNS, len(line), COLUMNS)):  # as terminals break lines, not as rich does
            console.print(row, no_wrap=True, highlight=False)
    plain = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    svg = console.export_svg(title="shardfix", code_format=plain, unique_id="demo")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def words(svg: str) -> str:
    """What stands in the picture."""
    rows = re.findall(r"<text.*?</text>", svg, re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<.*?>", "", row)) for row in rows)


def main() -> int:
    new = picture()
    if "--check" in sys.argv[1:]:
        return int(not PICTURE.is_file() or words(PICTURE.read_text(encoding="utf-8")) != words(new))
    PICTURE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
