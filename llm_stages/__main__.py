"""`python -m llm_stages`: the command `llm-stages`."""

import sys

from llm_stages.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
