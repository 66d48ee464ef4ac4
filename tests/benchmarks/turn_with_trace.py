"""Cost of a run file: a turn of the loop with a trace, compared with the same turn without one.

    python tests/benchmarks/turn_with_trace.py [rounds]

Each question has some turns in its own session, over HTTP on loopback: all but the last one call an
async tool. Both variants alternate, and the bar is the median of their ratios of CPU time, which
includes the header and the ending of the run. The conversations grow to 20 and to 200 messages, to
show that a line does not cost more in a long conversation. Ends with 1 if a bar is missed; [fast] has none.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from loopback import Way, at_most, connections, cpu, ratio, rounds_asked_for, table, take_turns
from side_by_side.job import KEY, QUESTION, SYSTEM
from side_by_side.server import ANSWER

from llm_stages import RunFile
from stage0_gateway import Gateway
from stage1_context import ContextEngine
from stage3_tools import (
    NativeDialect,
    PromptDialect,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    run_tool_loop,
)

_BAR = 1.15
"""On a quiet machine, a run file costs 14 to 16 % here, and 17 to 21 % with [fast].

The same code takes 40 % of the time if it runs repeatedly. Once per turn, between a reply and a
tool, it is not in the caches of the processor. Even a writer that only appends one unformatted line
per turn, without hashes, decision and checksum, costs 4 to 10 %.
"""

_TURNS = (10, 100)
_DIALECTS = {
    "calls": ("native calls", NativeDialect),
    "decisions": ("prompt dialect", PromptDialect),
}


@contextmanager
def server() -> Iterator[str]:
    """Run the model server of the comparison with peers; yield its URL."""
    script = Path(__file__).parent / "side_by_side" / "server.py"
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


async def add(a: int, b: int) -> str:
    """Add two integers.

    Args:
        a: The first number.
        b: The second number.
    """
    return str(a + b)


def question(gateway: Gateway, way: str, turns: int, trace: RunFile | None) -> Way:
    """Return a question with all its turns in its own session."""
    engine = ContextEngine()
    deps = ToolLoopDeps(gateway, engine, tool_registry=ToolRegistry(add))
    options = ToolLoopOptions(max_tool_rounds=turns, dialect=_DIALECTS[way][1](), trace=trace)

    async def ask() -> None:
        session = await engine.create_session(system_prompt=SYSTEM)
        result = await run_tool_loop(deps, session, QUESTION, options)
        assert (result.reply, result.stats.turns) == (ANSWER, turns)
        await engine.delete_session(session)

    return ask


async def measure(
    url: str, way: str, turns: int, rounds: int, connection: str
) -> tuple[float, float, float, float]:
    """Return the CPU seconds of a turn without and with a trace, their ratio, and bytes written."""
    with tempfile.TemporaryDirectory() as folder:
        trace = RunFile(Path(folder) / "run.jsonl")
        base = f"{url}/{way}/{turns - 1}/v1"
        transport = connections()[connection]
        async with Gateway("openai:m", api_key=KEY, base_url=base, transport=transport) as gateway:
            ways = {
                "without": question(gateway, way, turns, None),
                "with": question(gateway, way, turns, trace),
            }
            costs = await take_turns(ways, rounds)
        size = trace.path.stat().st_size / (rounds + 1) / turns
        times = ratio(costs["with"], costs["without"], lambda cost: cost.cpu)
        return cpu(costs["without"]) / turns, cpu(costs["with"]) / turns, times, size


def main(rounds: int) -> int:
    """Measure and print; return 1 if a bar is missed."""
    rows, missed = [], False
    with server() as url:
        for connection, way, turns in product(connections(), _DIALECTS, _TURNS):
            measured = measure(url, way, turns, rounds, connection)
            without, traced, times, size = asyncio.run(measured)
            figures = (f"{each * 1e6:,.0f}" for each in (without, traced, traced - without))
            name = f"{_DIALECTS[way][0]}, {turns} turns{connection}"
            bar = None if connection else _BAR
            rows.append(
                (
                    name,
                    *figures,
                    f"{times:.2f}" if bar is None else at_most(bar, times),
                    f"{size:,.0f}",
                )
            )
            missed = missed or (bar is not None and times > bar)
    heading = "", "us CPU without", "with a trace", "difference", "ratio", "bytes"
    table(f"One turn, medians of {rounds} rounds", heading, *rows)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(rounds_asked_for(25)))
