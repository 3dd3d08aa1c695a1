"""``python -m shardfix``."""

import sys

from shardfix.cli import main

if __name__ == "__main__":
    sys.exit(main())
