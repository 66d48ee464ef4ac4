import asyncio
import json

import httpx
import pytest

from stage0_gateway import Gateway, InvalidRequest, Message, RequestTimeout, StreamInterrupted

ASK = [Message.user("hi")]


def text(content, finish_reason=None):
    choice = {"delta": {"content": content}, "finish_reason": finish_reason}
    return f"data: {json.dumps({'choices': [choice]})}\n\n".encode()


STREAM = [text("y"), text("es", "stop")]
WHOLE = [b'{"choices": [{"message": {"content": "yes"}}]}']


class Counting(httpx.AsyncBaseTransport):
    """Answers with the next body, or repeatedly with the last one; counts open exchanges."""

    def __init__(self, *bodies, status=200):
        self.bodies, self.status, self.open, self.most = list(bodies), status, 0, 0

    async def handle_async_request(self, request):
        self.open += 1
        self.most = max(self.most, self.open)
        body = self.bodies.pop(0) if len(self.bodies) > 1 else self.bodies[0]
        return httpx.Response(self.status, stream=Body(self, body))


class Body(httpx.AsyncByteStream):
    """Sends its chunks; an exception among them is raised, and None waits forever."""

    def __init__(self, counting, chunks):
        self.counting, self.chunks = counting, chunks

    async def __aiter__(self):
        for chunk in self.chunks:
            await asyncio.sleep(0)
            if isinstance(chunk, Exception):
                raise chunk
            if chunk is None:
                await asyncio.Event().wait()
            yield chunk

    async def aclose(self):
        self.counting.open -= 1


def one_at_a_time(transport):
    return Gateway("openai:m", transport=transport, max_concurrency=1, max_retries=0)


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("body", [WHOLE, STREAM], ids=["chat", "stream"])
async def test_the_number_of_requests_at_once_is_limited(body, most):
    counting = Counting(body)
    gateway = Gateway("openai:m", transport=counting, max_concurrency=most)
    ask = (
        gateway.chat if body is WHOLE else lambda messages: gateway.stream(messages).final_message()
    )
    replies = await asyncio.gather(*[ask(ASK) for _ in range(10)])
    assert [each.content for each in replies] == ["yes"] * 10
    assert (counting.most, counting.open) == (most, 0)


async def test_without_a_limit_all_requests_run_at_once():
    counting = Counting(WHOLE)
    gateway = Gateway("openai:m", transport=counting)
    await asyncio.gather(*[gateway.chat(ASK) for _ in range(50)])
    assert (counting.most, counting.open) == (50, 0)


async def fail(gateway):
    with pytest.raises(StreamInterrupted):
        await gateway.stream(ASK).final_message()


async def abort(gateway):
    stream = gateway.stream(ASK)
    stream.on("text", lambda event: stream.abort())
    await stream.emitted("end")


async def cancel(gateway):
    task = asyncio.create_task(gateway.stream(ASK).final_message())
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def leave_early(gateway):
    async with gateway.stream(ASK) as stream:
        await stream.emitted("text")


async def never_read(gateway):
    gateway.stream(ASK)


async def send_invalid_request(gateway):
    with pytest.raises(ValueError, match="JSON"):
        await gateway.chat(ASK, temperature=float("nan"))


@pytest.mark.parametrize(
    ("end", "first"),
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
    assert (await gateway.stream(ASK).final_message()).content == "yes"
    assert (counting.most, counting.open) == (1, 0)


async def test_a_stream_that_is_dropped_before_its_end_releases_its_slot():
    gateway = one_at_a_time(Counting([text("y"), None], STREAM))
    async for event in gateway.stream(ASK):
        if event.name == "text":
            break
    async with asyncio.timeout(5):
        assert (await gateway.stream(ASK).final_message()).content == "yes"


async def test_the_slot_of_a_rejected_request_is_released():
    counting = Counting([b'{"error": {"message": "no"}}'], status=400)
    gateway = one_at_a_time(counting)
    for _ in range(3):
        with pytest.raises(InvalidRequest, match="no"):
            await gateway.chat(ASK)
        with pytest.raises(InvalidRequest, match="no"):
            await gateway.stream(ASK).final_message()
    assert (counting.most, counting.open) == (1, 0)


async def test_a_request_that_waits_for_a_slot_can_be_cancelled():
    counting = Counting([text("y"), None], STREAM)
    gateway = one_at_a_time(counting)
    async with gateway.stream(ASK) as stream:
        await stream.emitted("text")
        waiting = asyncio.create_task(gateway.chat(ASK))
        for _ in range(20):
            await asyncio.sleep(0)
        assert counting.open == 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert (await gateway.stream(ASK).final_message()).content == "yes"


async def test_waiting_for_a_slot_does_not_count_against_the_timeout():
    gateway = Gateway(
        "openai:m", transport=Counting([text("y"), None], WHOLE), max_concurrency=1, timeout=0.5
    )
    async with gateway.stream(ASK) as stream:
        await stream.emitted("text")
        waiting = asyncio.create_task(gateway.chat(ASK))
        with pytest.raises(Exception, match="No complete reply from"):
            await stream.final_message()
    assert (await waiting).content == "yes"


async def test_a_timeout_while_waiting_for_a_slot_names_the_likely_cause():
    options = {"max_concurrency": 1, "max_retries": 0, "timeout": 0.5}
    async with Gateway("openai:m", transport=Counting(STREAM, WHOLE), **options) as gateway:
        stream = gateway.stream(ASK)
        await stream.emitted("connect")
        with pytest.raises(RequestTimeout, match="Is a stream left open"):
            await gateway.chat(ASK)
        await stream.aclose()
        assert (await gateway.chat(ASK)).content == "yes"


async def test_a_fallback_model_without_structured_output_is_skipped_for_a_schema():
    model = Counting(WHOLE, status=404)
    keys = {"openai": "sk-one", "deepseek": "sk-two"}
    gateway = Gateway("openai:m", api_key=keys, fallback_models=["deepseek:m"], transport=model)
    with pytest.raises(InvalidRequest) as caught:
        await gateway.chat(ASK, response_schema={"type": "object"})
    assert caught.value.earlier == ()
    with pytest.raises(InvalidRequest) as caught:
        await gateway.chat(ASK)
    assert len(caught.value.earlier) == 1
