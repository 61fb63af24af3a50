"""``python -m sparlow.experiments table1 fig6 [--quick]``."""

from .command import main

if __name__ == "__main__":
    raise SystemExit(main())
