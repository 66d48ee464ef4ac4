import asyncio
import json

import httpx
import pytest

from stage0_gateway import Gateway, StreamInterrupted

ASK = [{"role": "user", "content": "hi"}]


def text(content):
    return f"data: {json.dumps({'choices': [{'delta': {'content': content}}]})}\n\n".encode()


END = [b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n', b"data: [DONE]\n\n"]


class Body(httpx.AsyncByteStream):
    """Sends its chunks one by one; None waits forever. Records `aclose` calls, and may delay them."""

    def __init__(self, *chunks, slow_to_close=False):
        self.chunks, self.slow_to_close = chunks, slow_to_close
        self.closed = 0
        self.closing = asyncio.Event()

    async def __aiter__(self):
        for chunk in self.chunks:
            await asyncio.sleep(0)
            if chunk is None:
                await asyncio.Event().wait()
            yield chunk

    async def aclose(self):
        self.closed += 1
        self.closing.set()
        if self.slow_to_close:
            await asyncio.Event().wait()


def gateway(body, **options):
    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=body))
    return Gateway("openai:m", transport=transport, max_retries=0, **options)


async def names(stream):
    return [
        event.name
        async for event in stream.events("connect", "text", "final_message", "abort", "end")
    ]


async def run_other_tasks(number=20):
    """Run the other tasks until they wait for something that does not come."""
    for _ in range(number):
        await asyncio.sleep(0)


def other_tasks():
    return asyncio.all_tasks() - {asyncio.current_task()}


ABORTED = ["connect", "text", "abort", "end"]


async def test_a_listener_can_abort():
    body = Body(text("a"), text("b"), *END)
    stream = gateway(body).stream(ASK)
    stream.on("text", lambda event: stream.abort("enough"))
    events = []
    stream.on("abort", events.append)
    assert await names(stream) == ABORTED
    assert ([event.reason for event in events], body.closed) == (["enough"], 1)


async def test_events_that_arrived_together_with_the_last_one_are_not_delivered_after_an_abort():
    stream = gateway(Body(b"".join([text("a"), text("b"), text("c"), *END]))).stream(ASK)
    stream.on("text", lambda event: stream.abort())
    assert await names(stream) == ABORTED


async def test_the_consumer_can_abort():
    body = Body(text("a"), text("b"), *END)
    stream = gateway(body).stream(ASK)
    seen = []
    async for event in stream.events("text", "abort", "end"):
        seen.append(event.name)
        stream.abort()
    assert (seen, body.closed, stream.current_message.text) == (["text", "abort", "end"], 1, "a")


async def test_another_task_can_abort_while_the_server_is_silent():
    body = Body(text("a"), None)
    stream = gateway(body).stream(ASK)
    watching = asyncio.create_task(names(stream))
    waiting = asyncio.create_task(stream.final_message())
    await run_other_tasks()
    stream.abort("enough")
    assert await watching == ABORTED
    with pytest.raises(StreamInterrupted, match=r"aborted before its end: enough\.") as caught:
        await waiting
    assert (caught.value.retryable, body.closed) == (False, 1)
    assert (watching.cancelling(), waiting.cancelling()) == (
        0,
        0,
    )  # no trace of the interruption is left


async def test_a_stream_can_be_aborted_before_it_is_read():
    sent = []
    transport = httpx.MockTransport(sent.append)
    stream = Gateway("openai:m", transport=transport).stream(ASK)
    stream.abort("never mind")
    assert await names(stream) == ["abort", "end"]
    with pytest.raises(StreamInterrupted, match="never mind"):
        await stream.final_message()
    assert sent == []


@pytest.mark.parametrize("aborted_by", ["another task", "a listener of the gateway"])
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

    stream = Gateway("openai:m", transport=httpx.MockTransport(hang), on_event=report).stream(ASK)
    watching = asyncio.create_task(names(stream))
    await run_other_tasks()
    stream.abort()
    assert (await watching, len(ended)) == (["abort", "end"], 1)


def test_a_stream_can_be_aborted_outside_of_an_event_loop():
    stream = gateway(Body(text("a"), *END)).stream(ASK)
    stream.abort()
    assert asyncio.run(names(stream)) == ["abort", "end"]
    with pytest.raises(StreamInterrupted, match=r"^The stream was aborted before its end\."):
        asyncio.run(stream.final_message())


async def test_data_that_arrives_together_with_an_abort_is_not_delivered():
    class Waiting(Body):
        arrival = asyncio.Event()

        async def __aiter__(self):
            yield self.chunks[0]
            await self.arrival.wait()
            yield self.chunks[1]

    body = Waiting(text("a"), text("b"))
    stream = gateway(body).stream(ASK)
    watching = asyncio.create_task(names(stream))
    await run_other_tasks()
    body.arrival.set()
    stream.abort()
    assert await watching == ABORTED


async def test_an_abort_while_a_complete_reply_is_closed_changes_nothing():
    body = Body(text("a"), *END, slow_to_close=True)
    stream = gateway(body).stream(ASK)
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


@pytest.mark.parametrize("last", ["final_message", "end"])
async def test_aborting_a_complete_reply_changes_nothing(last):
    stream = gateway(Body(text("a"), *END)).stream(ASK)
    stream.on(last, lambda event: stream.abort())
    assert await names(stream) == ["connect", "text", "final_message", "end"]
    stream.abort()
    assert (await stream.final_message()).content == "a"


async def test_aborting_a_failed_stream_changes_nothing():
    stream = gateway(Body(text("a"))).stream(ASK)
    events = []
    stream.on("error", lambda event: stream.abort()).on("abort", events.append)
    with pytest.raises(StreamInterrupted, match="before the reply was complete"):
        await names(stream)
    assert events == []


async def test_only_the_first_abort_has_an_effect():
    stream = gateway(Body(text("a"), None)).stream(ASK)
    waiting = asyncio.create_task(stream.emitted("abort"))
    await run_other_tasks()
    stream.abort("first")
    stream.abort("second")
    assert (await waiting).reason == "first"
    stream.abort("third")
    assert await names(stream) == []


@pytest.mark.parametrize("when", ["request", "response"])
async def test_an_abort_in_an_event_listener_of_the_gateway_leaves_no_cancellation_behind(when):
    def report(event):
        if event.name == when:
            stream.abort()

    stream = gateway(Body(text("a"), *END), on_event=report).stream(ASK)
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

    body = Closing(text("a"), *END)
    stream = gateway(body, on_event=report).stream(ASK)
    assert await names(stream) == ["connect", "text", "final_message", "end"]
    assert body.closed == 1


async def test_leaving_the_block_early_closes_the_connection():
    body = Body(text("a"), text("b"), None)
    async with gateway(body).stream(ASK) as stream:
        assert (await stream.emitted("text")).delta == "a"
    assert body.closed == 1
    with pytest.raises(StreamInterrupted, match="aborted before its end: closed"):
        await stream.final_message()


async def test_an_exception_in_the_block_closes_the_connection_and_propagates():
    body = Body(text("a"), None)
    with pytest.raises(ZeroDivisionError):
        async with gateway(body).stream(ASK) as stream:
            1 / len((await stream.emitted("text")).delta[1:])
    assert body.closed == 1


async def test_closing_a_stream_ends_the_iteration_of_another_task():
    body = Body(text("a"), None)
    stream = gateway(body).stream(ASK)
    watching = asyncio.create_task(names(stream))
    await run_other_tasks()
    await stream.aclose()
    assert body.closed == 1
    assert await watching == ABORTED


async def test_cancelling_the_task_closes_the_connection():
    body = Body(text("a"), None)
    stream = gateway(body).stream(ASK)
    reading = asyncio.create_task(stream.final_message())
    await run_other_tasks()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert body.closed == 1


async def test_cancelling_one_consumer_ends_the_stream_for_the_others():
    body = Body(text("a"), None)
    stream = gateway(body).stream(ASK)
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
    body = Body(text("a"), None)
    stream = gateway(body).stream(ASK)
    first = asyncio.create_task(names(stream))
    await run_other_tasks()
    second = asyncio.create_task(stream.final_message())
    await run_other_tasks()
    second.cancel()
    await run_other_tasks()
    assert (first.done(), body.closed) == (False, 0)
    stream.abort()
    assert await first == ABORTED


@pytest.mark.parametrize("aborted_by", ["a listener", "another task"])
async def test_a_cancellation_during_the_close_of_an_abort_is_raised_and_the_end_is_reported(
    aborted_by,
):
    body = Body(text("a"), None, slow_to_close=True)
    stream = gateway(body).stream(ASK)
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
    stream = gateway(Body(text("a"), None)).stream(ASK)
    reading = asyncio.create_task(names(stream))
    await run_other_tasks()
    stream.abort()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_a_task_that_was_cancelled_before_can_read_a_stream_and_be_aborted():
    stream = gateway(Body(text("a"), None)).stream(ASK)

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
    body = Body(text("a"), None)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), gateway(body).stream(ASK) as stream:
            await stream.final_message()
    assert body.closed == 1


@pytest.mark.parametrize("how", ["read to the end", "left early", "aborted"])
async def test_no_task_is_left_behind(how, collect):
    before = other_tasks()
    body = Body(text("a"), text("b"), *END)
    async with gateway(body).stream(ASK) as stream:
        await (stream.final_message() if how == "read to the end" else stream.emitted("text"))
        if how == "aborted":
            stream.abort()
            await stream.emitted("end")
    collect()
    await run_other_tasks()
    assert (other_tasks(), body.closed) == (before, 1)
