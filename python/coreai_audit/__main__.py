"""``python -m coreai_audit`` and the console script."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its status."""
    from ._core import main as run

    sys.exit(run(sys.argv))


if __name__ == "__main__":
    main()
