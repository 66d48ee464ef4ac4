"""`python -m stage3_tools`: the command `llm-stages`."""

import sys

from stage3_tools.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
