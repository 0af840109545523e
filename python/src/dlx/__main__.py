"""The command dlx: ``python -m dlx`` runs it with the same arguments."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Replace this process by the command."""
    command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "dlx")
    try:
        os.execv(command, ["dlx", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"dlx: the command cannot be run: {command}: {error.strerror}")


if __name__ == "__main__":
    main()
