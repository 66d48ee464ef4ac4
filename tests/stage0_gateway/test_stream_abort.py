import asyncio

import httpx
import pytest

from stage0_gateway import Gateway, StreamInterrupted
from tests.stage0_gateway.replies import DONE, STOP, text
from tests.stage0_gateway.requests import QUESTION
from tests.stage0_gateway.servers import Answers, Body, run_other_tasks
from tests.tables import for_each

END = [STOP, DONE]


def streaming(body, **options):
    """Return the stream of a reply with this body."""
    gateway = Gateway("openai:m", transport=Answers(body), max_retries=0, **options)
    return gateway.stream(QUESTION)


async def names(stream):
    return [
        event.name
        async for event in stream.events("connect", "text", "final_message", "abort", "end")
    ]


def other_tasks():
    return asyncio.all_tasks() - {asyncio.current_task()}


ABORTED = ["connect", "text", "abort", "end"]


async def test_a_listener_can_abort():
    body = Body([text("a"), text("b"), *END])
    stream = streaming(body)
    stream.on("text", lambda event: stream.abort("enough"))
    events = []
    stream.on("abort", events.append)
    assert await names(stream) == ABORTED
    assert ([event.reason for event in events], body.closed) == (["enough"], 1)


async def test_events_that_arrived_together_with_the_last_one_are_not_delivered_after_an_abort():
    stream = streaming([b"".join([text("a"), text("b"), text("c"), *END])])
    stream.on("text", lambda event: stream.abort())
    assert await names(stream) == ABORTED


async def test_the_consumer_can_abort():
    body = Body([text("a"), text("b"), *END])
    stream = streaming(body)
    seen = []
    async for event in stream.events("text", "abort", "end"):
        seen.append(event.name)
        stream.abort()
    assert (seen, body.closed, stream.current_message.text) == (["text", "abort", "end"], 1, "a")


async def test_another_task_can_abort_while_the_server_is_silent():
    body = Body([text("a"), None])
    stream = streaming(body)
    reading = asyncio.create_task(names(stream))
    waiting = asyncio.create_task(stream.final_message())
    await run_other_tasks()
    stream.abort("enough")
    assert await reading == ABORTED
    with pytest.raises(StreamInterrupted, match=r"aborted before its end: enough\.") as caught:
        await waiting
    assert (caught.value.retryable, body.closed) == (False, 1)
    # No trace of the interruption is left.
    assert (reading.cancelling(), waiting.cancelling()) == (0, 0)


async def test_a_stream_can_be_aborted_before_it_is_read():
    server = Answers(200)
    stream = Gateway("openai:m", transport=server).stream(QUESTION)
    stream.abort("never mind")
    assert await names(stream) == ["abort", "end"]
    with pytest.raises(StreamInterrupted, match="never mind"):
        await stream.final_message()
    assert server.requests == []


@for_each("aborted_by", ["another task", "a listener of the gateway"])
async def test_a_stream_can_be_aborted_before_the_server_answers(aborted_by):
    ended = []

    async def hang(request):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(request)

    def report(event):
        if aborted_by != "another task":
            stream.abort()

    gateway = Gateway("openai:m", transport=httpx.MockTransport(hang), on_event=report)
    stream = gateway.stream(QUESTION)
    reading = asyncio.create_task(names(stream))
    await run_other_tasks()
    stream.abort()
    assert (await reading, len(ended)) == (["abort", "end"], 1)


def test_a_stream_can_be_aborted_outside_of_an_event_loop():
    stream = streaming([text("a"), *END])
    stream.abort()
    assert asyncio.run(names(stream)) == ["abort", "end"]
    with pytest.raises(StreamInterrupted, match=r"^The stream was aborted before its end\."):
        asyncio.run(stream.final_message())


async def test_data_that_arrives_together_with_an_abort_is_not_delivered():
    arrival = asyncio.Event()
    stream = streaming([text("a"), arrival, text("b")])
    reading = asyncio.create_task(names(stream))
    await run_other_tasks()
    arrival.set()
    stream.abort()
    assert await reading == ABORTED


async def test_an_abort_while_a_complete_reply_is_closed_changes_nothing():
    body = Body([text("a"), *END], at_close=None)
    stream = streaming(body)
    reading = asyncio.create_task(stream.final_message())
    await body.closing.wait()
    stream.abort("late")
    await run_other_tasks()
    assert not reading.done()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert (await stream.emitted("abort")).reason == "cancelled"
    assert (await stream.final_message()).content == "a"


@for_each("last", ["final_message", "end"])
async def test_aborting_a_complete_reply_changes_nothing(last):
    stream = streaming([text("a"), *END])
    stream.on(last, lambda event: stream.abort())
    assert await names(stream) == ["connect", "text", "final_message", "end"]
    stream.abort()
    assert (await stream.final_message()).content == "a"


async def test_aborting_a_failed_stream_changes_nothing():
    stream = streaming([text("a")])
    events = []
    stream.on("error", lambda event: stream.abort()).on("abort", events.append)
    with pytest.raises(StreamInterrupted, match="before the reply was complete"):
        await names(stream)
    assert events == []


async def test_only_the_first_abort_has_an_effect():
    stream = streaming([text("a"), None])
    waiting = asyncio.create_task(stream.emitted("abort"))
    await run_other_tasks()
    stream.abort("first")
    stream.abort("second")
    assert (await waiting).reason == "first"
    stream.abort("third")
    assert await names(stream) == []


@for_each("when", ["request", "response"])
async def test_an_abort_in_an_event_listener_of_the_gateway_leaves_no_cancellation_behind(when):
    def report(event):
        if event.name == when:
            stream.abort()

    stream = streaming([text("a"), *END], on_event=report)
    assert (await names(stream))[-2:] in (["abort", "end"], ["final_message", "end"])
    await run_other_tasks()  # a leftover cancellation would be raised here
    assert asyncio.current_task().cancelling() == 0


async def test_an_abort_at_the_end_of_a_reply_does_not_interrupt_its_close():
    class Closing(Body):
        async def aclose(self):
            await run_other_tasks()
            await super().aclose()

    def report(event):
        if event.name == "response":
            stream.abort()

    body = Closing([text("a"), *END])
    stream = streaming(body, on_event=report)
    assert await names(stream) == ["connect", "text", "final_message", "end"]
    assert body.closed == 1


async def test_leaving_the_block_early_closes_the_connection():
    body = Body([text("a"), text("b"), None])
    async with streaming(body) as stream:
        assert (await stream.emitted("text")).delta == "a"
    assert body.closed == 1
    with pytest.raises(StreamInterrupted, match="aborted before its end: closed"):
        await stream.final_message()


async def test_an_exception_in_the_block_closes_the_connection_and_propagates():
    body = Body([text("a"), None])
    with pytest.raises(ZeroDivisionError):
        async with streaming(body) as stream:
            1 / len((await stream.emitted("text")).delta[1:])
    assert body.closed == 1


async def test_closing_a_stream_ends_the_iteration_of_another_task():
    body = Body([text("a"), None])
    stream = streaming(body)
    reading = asyncio.create_task(names(stream))
    await run_other_tasks()
    await stream.aclose()
    assert body.closed == 1
    assert await reading == ABORTED


async def test_cancelling_the_task_closes_the_connection():
    body = Body([text("a"), None])
    stream = streaming(body)
    reading = asyncio.create_task(stream.final_message())
    await run_other_tasks()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert body.closed == 1


async def test_cancelling_one_consumer_ends_the_stream_for_the_others():
    body = Body([text("a"), None])
    stream = streaming(body)
    first = asyncio.create_task(names(stream))
    await run_other_tasks()
    second = asyncio.create_task(names(stream))
    await run_other_tasks()
    first.cancel()
    assert await second == ["abort", "end"]
    with pytest.raises(StreamInterrupted, match="cancelled"):
        await stream.final_message()
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_cancelling_a_task_that_only_waits_does_not_end_the_stream():
    body = Body([text("a"), None])
    stream = streaming(body)
    first = asyncio.create_task(names(stream))
    await run_other_tasks()
    second = asyncio.create_task(stream.final_message())
    await run_other_tasks()
    second.cancel()
    await run_other_tasks()
    assert (first.done(), body.closed) == (False, 0)
    stream.abort()
    assert await first == ABORTED


@for_each("aborted_by", ["a listener", "another task"])
async def test_a_cancellation_during_the_close_of_an_abort_is_raised_and_the_end_is_reported(
    aborted_by,
):
    body = Body([text("a"), None], at_close=None)
    stream = streaming(body)
    if aborted_by == "a listener":
        stream.on("text", lambda event: stream.abort())
    reading = asyncio.create_task(names(stream))
    await run_other_tasks()
    stream.abort()
    await body.closing.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await names(stream) == ["abort", "end"]


async def test_a_cancellation_and_an_abort_at_the_same_time_raise_the_cancellation():
    stream = streaming([text("a"), None])
    reading = asyncio.create_task(names(stream))
    await run_other_tasks()
    stream.abort()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_a_task_that_was_cancelled_before_can_read_a_stream_and_be_aborted():
    stream = streaming([text("a"), None])

    async def read():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return await names(stream)

    reading = asyncio.create_task(read())
    await run_other_tasks()
    reading.cancel()
    await run_other_tasks()
    stream.abort()
    assert await reading == ABORTED


async def test_a_timeout_of_the_caller_closes_the_connection():
    body = Body([text("a"), None])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), streaming(body) as stream:
            await stream.final_message()
    assert body.closed == 1


@pytest.mark.parametrize("how", ["read to the end", "left early", "aborted"])
async def test_no_task_is_left_behind(how, collect):
    before = other_tasks()
    body = Body([text("a"), text("b"), *END])
    async with streaming(body) as stream:
        await (stream.final_message() if how == "read to the end" else stream.emitted("text"))
        if how == "aborted":
            stream.abort()
            await stream.emitted("end")
    collect()
    await run_other_tasks()
    assert (other_tasks(), body.closed) == (before, 1)
