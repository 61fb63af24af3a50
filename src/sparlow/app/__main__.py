"""Run the command line: ``python -m sparlow.app``."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
