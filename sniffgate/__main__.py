"""`python -m sniffgate`, the same as the command `sniffgate`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
