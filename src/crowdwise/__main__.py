"""`python -m crowdwise` is the `crowdwise` command."""

import sys

from crowdwise.cli import main

if __name__ == "__main__":
    sys.exit(main())
