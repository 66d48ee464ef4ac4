"""The benchmark measures what it says: each driver has its tools called, and each answer is the right one."""

import asyncio
import importlib
import json
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "side_by_side"
DRIVERS = {"bare_httpx": None, "bare_aiohttp": "aiohttp", "ours": None, "ours_fast": "httpx_aiohttp"}


@pytest.fixture(autouse=True)
def _found(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))


@pytest.fixture(params=DRIVERS)
def driver(request, _found):
    if needed := DRIVERS[request.param]:
        pytest.importorskip(needed)
    return importlib.import_module(f"drivers.{request.param}")


@asynccontextmanager
async def model_server():
    from server import Server

    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@asynccontextmanager
async def working(driver):
    """A worker of a driver, and the URL of a model server."""
    from worker import Worker

    async with model_server() as server:
        worker = Worker(driver)
        yield worker, server
        await worker.close()


async def test_a_loop_is_measured_in_each_dialect_that_a_driver_speaks(driver):
    async with working(driver) as (worker, server):
        for dialect in driver.SPEAKS:
            cost = await worker.loop(server, dialect, rounds=3, times=2)
            assert min(cost["cpu"], cost["wall"]) > 0


async def test_growth_is_told_of_long_conversations(driver):
    async with working(driver) as (worker, server):
        cost = await worker.loop(server, driver.SPEAKS[0], rounds=50, times=1)
        assert cost["growth"] == cost["late"] / cost["early"]


async def test_several_loops_and_several_tools_run_at_once(driver):
    async with working(driver) as (worker, server):
        assert (await worker.at_once(server, loops=4, rounds=2))["wall"] > 0
        for tools in ("three", "three blocking"):
            assert (await worker.three(server, tools))["wall"] >= 0.2


async def test_a_stream_is_read_to_its_last_letter(driver):
    async with working(driver) as (worker, server):
        assert (await worker.stream(server, pieces=40))["cpu"] > 0
        if hasattr(driver, "snapshots"):
            assert (await worker.snapshots(server, pieces=20))["cpu"] > 0


@pytest.mark.parametrize("path", ["/calls/2/v1/chat/completions", "/calls/2/v1/messages"])
@pytest.mark.parametrize("stream", [False, True])
async def test_our_own_reader_finds_what_the_server_says_in_either_format(path, stream):
    from server import ANSWER

    from stage0_gateway import Gateway, Message

    provider = "anthropic" if path.endswith("messages") else "openai"
    talk = [Message.user("Please add the numbers.")]
    async with model_server() as server:
        base = f"{server}{path.removesuffix('/messages').removesuffix('/chat/completions')}"
        async with Gateway(f"{provider}:m", api_key="k", base_url=base) as gateway:
            for round_ in range(3):
                asked = gateway.stream(talk).final_message() if stream else gateway.chat(talk)
                message = (await asked).message
                talk.append(message)
                for call in message.tool_calls:
                    assert json.loads(call.arguments) == {"a": round_, "b": 1}
                    talk.append(Message.tool("1", call.id))
    assert message.text == ANSWER


async def test_a_wrong_answer_or_too_few_calls_is_no_measurement():
    from worker import Worker

    class Wrong:
        SPEAKS = ("calls",)
        answer = "nothing of the kind"

        @staticmethod
        @asynccontextmanager
        async def asking(work):
            async def ask():
                return Wrong.answer

            yield ask

    with pytest.raises(RuntimeError, match="not the answer: 'nothing of the kind'"):
        await Worker(Wrong).loop("http://unused", "calls", rounds=3, times=1)
    Wrong.answer = "All sums are done."
    with pytest.raises(RuntimeError, match="0 calls instead of 3"):
        await Worker(Wrong).loop("http://unused", "calls", rounds=3, times=1)


def measured(task, driver, **ratios):
    return {"task": task, "driver": driver, "figures": dict(ratios), "ratios": ratios, "above": {}}


def test_a_bar_is_missed_by_what_is_above_it():
    from bars import judged

    rows = [measured("calls 10", "ours", cpu=1.01), measured("decisions 10", "ours", cpu=1.09)]
    failed = {"task": "calls 50", "driver": "ours", "error": "RuntimeError: no"}
    results = {"side by side": [*rows, failed], "starting": [], "alone": []}
    assert [(bar.figure, bar.missed) for bar in judged(results)] == [
        (1.01, True),
        (1.09, False),
        *[(inf, True)] * 2,
    ]


def test_each_bar_is_about_something_that_is_measured():
    import alone
    import bars
    from tasks import TASKS

    names = {task.name for task in TASKS}
    assert {task for _, task, *_ in bars.SERVER_SIDE} <= names
    ways = {(task.name, way.name) for task in alone.tasks() for way in task.ways}
    assert {(task, way) for _, task, way, *_ in bars.ALONE} <= ways
