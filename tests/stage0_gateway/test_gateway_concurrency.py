import asyncio
import json

import httpx
import pytest

from stage0_gateway import (
    Gateway,
    InvalidRequest,
    RequestTimeout,
    StreamInterrupted,
)
from tests.stage0_gateway.replies import completion, failure, text
from tests.stage0_gateway.requests import QUESTION, ask, each_method
from tests.stage0_gateway.servers import Body, run_other_tasks
from tests.tables import for_each

STREAM = [text("y"), text("es", "stop")]
WHOLE = [json.dumps(completion()).encode()]


class CountedBody(Body):
    """A body that counts the open exchanges of its transport."""

    def __init__(self, chunks, transport):
        super().__init__(chunks)
        self._transport = transport
        transport.open += 1
        transport.most = max(transport.most, transport.open)

    async def aclose(self):
        self._transport.open -= 1
        await super().aclose()


class Counting(httpx.AsyncBaseTransport):
    """Answers with the next body, or repeatedly with the last one; counts open exchanges.

    Attributes:
        open: The number of open exchanges.
        most: The highest number of exchanges that were open at once.
    """

    def __init__(self, *bodies, status=200):
        self._bodies, self._status = list(bodies), status
        self.open = self.most = 0

    async def handle_async_request(self, request):
        chunks = self._bodies.pop(0) if len(self._bodies) > 1 else self._bodies[0]
        return httpx.Response(self._status, stream=CountedBody(chunks, self))


def one_at_a_time(transport):
    return Gateway("openai:m", transport=transport, max_concurrency=1, max_retries=0)


@for_each("most", [1, 3])
@each_method
async def test_the_number_of_requests_at_once_is_limited(method, most):
    counting = Counting(WHOLE if method == "chat" else STREAM)
    gateway = Gateway("openai:m", transport=counting, max_concurrency=most)
    replies = await asyncio.gather(*[ask(gateway, method) for _ in range(10)])
    assert [each.content for each in replies] == ["yes"] * 10
    assert (counting.most, counting.open) == (most, 0)


async def test_without_a_limit_all_requests_run_at_once():
    counting = Counting(WHOLE)
    gateway = Gateway("openai:m", transport=counting)
    await asyncio.gather(*[gateway.chat(QUESTION) for _ in range(50)])
    assert (counting.most, counting.open) == (50, 0)


async def fail(gateway):
    with pytest.raises(StreamInterrupted):
        await gateway.stream(QUESTION).final_message()


async def abort(gateway):
    stream = gateway.stream(QUESTION)
    stream.on("text", lambda event: stream.abort())
    await stream.emitted("end")


async def cancel(gateway):
    task = asyncio.create_task(gateway.stream(QUESTION).final_message())
    await run_other_tasks()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def leave_early(gateway):
    async with gateway.stream(QUESTION) as stream:
        await stream.emitted("text")


async def never_read(gateway):
    gateway.stream(QUESTION)


async def send_invalid_request(gateway):
    with pytest.raises(ValueError, match="JSON"):
        await gateway.chat(QUESTION, temperature=float("nan"))


@for_each(
    "end, first",
    [
        (fail, [text("y"), httpx.ReadError("reset")]),
        (abort, [text("y"), None]),
        (cancel, [text("y"), None]),
        (cancel, [None]),
        (leave_early, [text("y"), None]),
        (never_read, STREAM),
        (send_invalid_request, STREAM),
    ],
)
async def test_the_slot_of_a_stream_is_released_however_the_stream_ends(end, first):
    counting = Counting(first, STREAM)
    gateway = one_at_a_time(counting)
    await end(gateway)
    assert (await gateway.stream(QUESTION).final_message()).content == "yes"
    assert (counting.most, counting.open) == (1, 0)


async def test_a_stream_that_is_dropped_before_its_end_releases_its_slot():
    gateway = one_at_a_time(Counting([text("y"), None], STREAM))
    async for event in gateway.stream(QUESTION):
        if event.name == "text":
            break
    assert (await gateway.stream(QUESTION).final_message()).content == "yes"


async def test_the_slot_of_a_rejected_request_is_released():
    counting = Counting([json.dumps(failure("no")).encode()], status=400)
    gateway = one_at_a_time(counting)
    for _ in range(3):
        with pytest.raises(InvalidRequest, match="no"):
            await gateway.chat(QUESTION)
        with pytest.raises(InvalidRequest, match="no"):
            await gateway.stream(QUESTION).final_message()
    assert (counting.most, counting.open) == (1, 0)


async def test_a_request_that_waits_for_a_slot_can_be_cancelled():
    counting = Counting([text("y"), None], STREAM)
    gateway = one_at_a_time(counting)
    async with gateway.stream(QUESTION) as stream:
        await stream.emitted("text")
        waiting = asyncio.create_task(gateway.chat(QUESTION))
        await run_other_tasks()
        assert counting.open == 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert (await gateway.stream(QUESTION).final_message()).content == "yes"


@pytest.fixture
async def advance(monkeypatch):
    """`await advance(seconds)` runs the other tasks, and sets the clock of the event loop forward."""
    loop, passed = asyncio.get_running_loop(), []
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + sum(passed))

    async def advance_clock(seconds):
        await run_other_tasks()
        passed.append(seconds)
        await run_other_tasks()

    return advance_clock


async def test_waiting_for_a_slot_does_not_count_against_the_timeout(advance):
    arrival = asyncio.Event()
    transport = Counting([text("y"), None], [arrival, *WHOLE])
    options = {"max_concurrency": 1, "max_retries": 0, "timeout": 100}
    gateway = Gateway("openai:m", transport=transport, **options)
    reading = asyncio.create_task(gateway.stream(QUESTION).final_message())
    await advance(10)
    waiting = asyncio.create_task(gateway.chat(QUESTION))
    await advance(95)
    with pytest.raises(RequestTimeout, match="No complete reply from"):
        await reading
    await advance(90)
    arrival.set()
    assert (await waiting).content == "yes"


async def test_a_timeout_while_waiting_for_a_slot_names_the_likely_cause(advance):
    options = {"max_concurrency": 1, "max_retries": 0, "timeout": 100}
    gateway = Gateway("openai:m", transport=Counting(STREAM, WHOLE), **options)
    async with gateway.stream(QUESTION) as stream:
        await stream.emitted("connect")
        waiting = asyncio.create_task(gateway.chat(QUESTION))
        await advance(101)
        with pytest.raises(RequestTimeout, match="Is a stream left open"):
            await waiting
    assert (await gateway.chat(QUESTION)).content == "yes"


async def test_a_fallback_model_without_structured_output_is_skipped_for_a_schema():
    model = Counting(WHOLE, status=404)
    keys = {"openai": "sk-one", "deepseek": "sk-two"}
    gateway = Gateway("openai:m", api_key=keys, fallback_models=["deepseek:m"], transport=model)
    with pytest.raises(InvalidRequest) as caught:
        await gateway.chat(QUESTION, response_schema={"type": "object"})
    assert caught.value.earlier == ()
    with pytest.raises(InvalidRequest) as caught:
        await gateway.chat(QUESTION)
    assert len(caught.value.earlier) == 1
