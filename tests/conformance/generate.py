"""Write the generated files of the course: `make course`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # the files of this checkout

from tests.conformance.diagnosis import PATTERNS, patterns
from tests.conformance.differences import PAGE, differences
from tests.conformance.peers.page import PAGE as PEERS
from tests.conformance.peers.page import load_results
from tests.conformance.peers.page import page as peers
from tests.conformance.starters import starters


def main() -> None:
    """Write all files."""
    for path, text in starters().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    PAGE.write_text(differences(), encoding="utf-8")
    PATTERNS.write_text(patterns(), encoding="utf-8")
    PEERS.write_text(peers(*load_results()), encoding="utf-8")


if __name__ == "__main__":
    main()
