"""The drivers of the benchmark call their tools and return the right answers."""

import asyncio
import importlib
import importlib.util
import json
import time
from contextlib import asynccontextmanager
from functools import partial
from itertools import accumulate
from math import inf
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

HERE = Path(__file__).parent / "side_by_side"
DRIVERS = {
    "bare_httpx": None,
    "bare_aiohttp": "aiohttp",
    "ours": None,
    "ours_fast": "httpx_aiohttp",
}


@pytest.fixture(autouse=True)
def _found(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))


@pytest.fixture(params=DRIVERS)
def driver(request, monkeypatch, _found):
    if needed := DRIVERS[request.param]:
        pytest.importorskip(needed)
    if request.param == "ours_fast":
        monkeypatch.setattr("stage0_gateway.http.client.find_spec", importlib.util.find_spec)
    return importlib.import_module(f"drivers.{request.param}")


@asynccontextmanager
async def model_server():
    from server import Server

    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@asynccontextmanager
async def working(driver):
    """Yield a worker of a driver, and the URL of a model server."""
    from worker import Worker

    async with model_server() as server:
        worker = Worker(driver)
        yield worker, server
        await worker.close()


async def test_a_loop_is_measured_in_each_dialect_of_a_driver(driver):
    async with working(driver) as (worker, server):
        for dialect in driver.SPEAKS:
            cost = await worker.loop(server, dialect, rounds=3, times=2)
            assert min(cost["cpu"], cost["wall"]) > 0


@pytest.mark.parametrize("name", ["ours", "ours_ask"])
async def test_the_path_of_a_question_is_traced_in_each_dialect(name, monkeypatch):
    for variable in ("OPENAI_API_KEY", "LLM_BASE_URL"):
        monkeypatch.setenv(variable, "")  # `ours_ask` sets them
    driver = importlib.import_module(f"drivers.{name}")
    async with working(driver) as (worker, server):
        for dialect in driver.SPEAKS:
            importlib.import_module("job").called.clear()
            path = await worker.path(server, dialect)
            assert {"request", "read", "act"} <= {*path["listed"]["stage3_tools/turn.py"]}
            assert path["files"] > 30
            assert path["lines"] > path["lines of functions"] > path["functions"]


async def test_concurrent_loops_and_concurrent_tools_are_measured(driver):
    async with working(driver) as (worker, server):
        assert (await worker.at_once(server, loops=4, rounds=2))["wall"] > 0
        for tools in ("three", "three blocking"):
            assert (await worker.three(server, tools))["wall"] >= 0.2


async def test_a_stream_is_read_to_its_end(driver):
    async with working(driver) as (worker, server):
        assert (await worker.stream(server, pieces=40))["cpu"] > 0
        if hasattr(driver, "snapshots"):
            assert (await worker.snapshots(server, pieces=20))["cpu"] > 0


@pytest.mark.parametrize("path", ["/calls/2/v1/chat/completions", "/calls/2/v1/messages"])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_gateway_reads_the_answer_of_the_model_server_in_both_formats(path, stream):
    from server import ANSWER

    from stage0_gateway import Gateway, Message

    provider = "anthropic" if path.endswith("messages") else "openai"
    messages = [Message.user("Please add the numbers.")]
    async with model_server() as server:
        base = f"{server}{path.removesuffix('/messages').removesuffix('/chat/completions')}"
        async with Gateway(f"{provider}:m", api_key="k", base_url=base) as gateway:
            for round_ in range(3):
                asked = (
                    gateway.stream(messages).final_message() if stream else gateway.chat(messages)
                )
                message = (await asked).message
                messages.append(message)
                for call in message.tool_calls:
                    assert json.loads(call.arguments) == {"a": round_, "b": 1}
                    messages.append(Message.tool("1", call.id))
    assert message.text == ANSWER


class FakeDriver:
    """A driver that answers without a model, by calling `ask`."""

    SPEAKS = ("calls",)

    def __init__(self, ask):
        self.ask = ask

    @asynccontextmanager
    async def asking(self, work):
        yield self.ask


async def answered_after(seconds, *, blocking=False):
    await asyncio.sleep(0 if blocking else seconds)
    time.sleep(seconds if blocking else 0)  # noqa: ASYNC251 - blocking is tested
    return "All sums are done."


async def test_growth_is_the_ratio_of_the_last_turns_to_the_first_ones():
    from job import called
    from worker import Worker

    async def ask():
        called.extend(accumulate([2.0] * 10 + [3.0] * 40))
        return "All sums are done."

    cost = await Worker(FakeDriver(ask)).loop("http://unused", "calls", rounds=50, times=3)
    assert (cost["early"], cost["late"], cost["growth"]) == (2.0, 3.0, 1.5)


async def test_waiting_time_is_part_of_the_time_of_each_request():
    from worker import Worker

    worker = Worker(FakeDriver(partial(answered_after, 0.05)))
    assert (await worker.at_once("http://unused", loops=4, rounds=1))["wall"] * 8 >= 0.05
    assert (await worker.three("http://unused", "three"))["wall"] >= 0.05


async def test_a_blocked_event_loop_is_reported_as_stuck():
    from worker import Worker

    worker = Worker(FakeDriver(partial(answered_after, 0.05, blocking=True)))
    assert (await worker.three("http://unused", "three"))["stuck"] >= 0.04


async def test_a_wrong_answer_or_a_missing_call_raises_an_error():
    from worker import Worker

    for answer, error in (
        ("nothing of the kind", "not the answer: 'nothing"),
        ("All sums are done.", "0 calls"),
    ):

        async def ask(answer=answer):
            return answer

        with pytest.raises(RuntimeError, match=error):
            await Worker(FakeDriver(ask)).loop("http://unused", "calls", rounds=3, times=1)


def test_each_ratio_refers_to_the_base_measured_before_it_and_the_first_pair_is_discarded():
    from pairs import Measured, beside

    base = iter([{"cpu": 100.0}, {"cpu": 1.0}, {"cpu": 2.0}, {"cpu": 4.0}])
    ours = iter(
        [{"cpu": 1.0, "own": 9.0}, *({"cpu": each, "own": 5.0} for each in (2.0, 6.0, 10.0))]
    )
    assert beside(lambda: next(base), lambda: next(ours), 3) == Measured(
        {"cpu": 6.0, "own": 5.0}, {"cpu": 2.5}, {"cpu": 4.0}, {"cpu": 2.0}, 3
    )


def test_a_failing_driver_raises_the_reason_and_its_process_is_replaced():
    from pairs import Driver

    driver = Driver("bare_httpx")
    try:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no attribute 'nothing'"):
                driver.do("nothing")
    finally:
        driver.close()
    with pytest.raises(RuntimeError, match="No module named"):
        Driver("nobody")


def measured(task, driver, **ratios):
    return {"task": task, "driver": driver, "figures": dict(ratios), "ratios": ratios, "above": {}}


def test_a_bar_is_missed_by_a_higher_figure_by_a_failure_and_by_a_missing_figure():
    from bars import ALONE, SERVER_SIDE, STARTING, judged

    rows = [measured("calls 10", "ours", cpu=1.61), measured("decisions 10", "ours", cpu=1.59)]
    failed = {"task": "messages 10", "driver": "ours", "error": "RuntimeError: no"}
    results = {"side by side": [*rows, failed], "starting": [], "alone": [], "only": ["calls"]}
    judgements = [(1.61, True), (1.59, False), (inf, True)]
    assert [(bar.figure, bar.missed) for bar in judged(results)] == judgements
    every = list(judged(results | {"only": []}))
    assert len(every) == len([*SERVER_SIDE, *STARTING, *ALONE])
    assert sum(not bar.missed for bar in every) == 1


def test_the_report_shows_the_number_of_bars_that_hold():
    from report import bars_judged

    rows = [measured("calls 10", "ours", cpu=1.61), measured("decisions 10", "ours", cpu=1.59)]
    page = bars_judged({"side by side": rows, "starting": [], "alone": [], "only": ["calls"]})
    assert page.startswith("1 of 2 ")
    assert "| CPU of a request, 10 rounds | 1.61 × | 1.6 × | **missed** |" in page
    assert "| … in the prompt dialect | 1.59 × | 1.6 × | holds |" in page


@pytest.mark.parametrize(
    "of_the_machine",
    [
        "/home/ann/x.py",
        "http://index.example/simple",
        "10.1.2.3",
        "index.example:80",
        "proxy:3128",
        "ann@host.example",
    ],
)
def test_a_reason_hides_details_of_the_machine(of_the_machine):
    from tables import without_machine

    assert without_machine(f"it failed at {of_the_machine} twice") == "it failed at … twice"


def test_each_bar_refers_to_a_measured_task():
    import alone
    import bars
    from tasks import TASKS

    names = {task.name for task in TASKS}
    assert {task for _, task, *_ in bars.SERVER_SIDE} <= names
    ways = {(task.name, way.name) for task in alone.tasks() for way in task.ways}
    assert {(task, way) for _, task, way, *_ in bars.ALONE} <= ways


def test_the_stored_report_matches_the_stored_results():
    import report

    folder = HERE.parents[2] / "docs" / "performance"
    assert (folder / "results.md").read_text() == report.markdown(
        json.loads((folder / "results.json").read_text())
    )
