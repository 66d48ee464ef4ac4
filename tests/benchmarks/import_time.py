"""What importing the four stages costs, beside importing the four libraries they are built on.

    python tests/benchmarks/import_time.py [runs]

Each run starts Python anew, three times in a row: with nothing, with the libraries, with the stages. The
figures are medians over the runs; compare them with each other, not with another machine's.
"""

import statistics
import subprocess
import sys
import time

NOTHING = "pass"
LIBRARIES = "import httpx, pydantic, jsonschema, tiktoken"
STAGES = "import stage0_gateway, stage1_context, stage2_output, stage3_tools"


def seconds(statement: str) -> float:
    """How long a new Python takes for a statement."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - started


def main(runs: int) -> None:
    """Measure in turns, print medians in milliseconds."""
    for statement in (NOTHING, LIBRARIES, STAGES):
        seconds(statement)  # once, so that files are in the cache
    measured = [[seconds(each) for each in (NOTHING, LIBRARIES, STAGES)] for _ in range(runs)]
    libraries = statistics.median(run[1] - run[0] for run in measured)
    stages = statistics.median(run[2] - run[0] for run in measured)
    print(f"above bare Python, median of {runs} runs:")
    print(f"  httpx + pydantic + jsonschema + tiktoken  {libraries * 1000:6.0f} ms")
    print(
        f"  the four stages                           {stages * 1000:6.0f} ms  ({stages / libraries:.2f} x)"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
