"""``python -m shardfix``."""

import os
import sys

if sys.path[0] in ("", os.getcwd()):
    # ``-m`` puts the current folder first. That folder is to be read, not run: it may hold a typing.py of its own.
    del sys.path[0]

from shardfix.cli import main

if __name__ == "__main__":
    sys.exit(main())
