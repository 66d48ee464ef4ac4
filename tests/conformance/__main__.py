"""Grade a file: `python tests/conformance stage2 my_output.py --step 3`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # the files of this checkout

from tests.conformance.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
