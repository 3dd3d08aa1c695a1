"""Write shardfix/schema.json, the JSON schema of ``[tool.shardfix]``, from what the reader of the table knows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from shardfix.codemod import all_codemods
from shardfix.configuration import schema

SCHEMA = Path(__file__).parent.parent / "shardfix" / "schema.json"


def text() -> str:
    """The file, for the codemods that come with shardfix."""
    own = [name for name, codemod in all_codemods().items() if codemod.__module__.startswith("shardfix.")]
    return json.dumps(schema(own), indent=2) + "\n"


def main() -> int:
    """Write the schema; with ``--check`` only say whether it is up to date."""
    if "--check" in sys.argv[1:]:
        return int(SCHEMA.read_text(encoding="utf-8") != text())
    SCHEMA.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
