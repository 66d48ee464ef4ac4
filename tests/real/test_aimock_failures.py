"""Failures that aimock simulates, in four formats, for whole replies and for streams."""

import pytest

from stage0_gateway import (
    AuthenticationFailed,
    ConnectionFailed,
    ContextOverflow,
    GatewayError,
    InvalidRequest,
    MalformedResponse,
    RateLimited,
    RequestTimeout,
    ServerFailed,
    StreamInterrupted,
    Timeouts,
    ToolSpec,
)
from tests.real.peers import question

pytestmark = pytest.mark.real
WEATHER = ToolSpec("get_weather", "The weather in a city.", {"type": "object", "properties": {}})


# ---- rejected requests


async def test_a_rate_limit_has_the_requested_wait(peer, ask):
    async with peer.gateway() as gateway:
        with pytest.raises(RateLimited, match=r"Slow down\.") as caught:
            await ask(gateway, question("Too fast."))
    assert (caught.value.status, caught.value.retryable, caught.value.retry_after) == (
        429,
        True,
        7.0,
    )


async def test_a_retry_after_a_rate_limit_succeeds(peer, ask):
    events = []
    async with peer.gateway(max_retries=1, on_event=events.append) as gateway:
        reply = await ask(gateway, question("Too fast."))
    assert reply.content == "Now."
    assert [event.name for event in events] == ["request", "retry", "request", "response"]


async def test_overloaded_and_unavailable_servers_are_retried(peer, ask):
    async with peer.gateway(max_retries=2) as gateway:
        reply = await ask(gateway, question("Too busy."))
    assert reply.content == "Now."
    assert len(peer.seen()) == 3


async def test_the_last_error_is_raised_after_all_retries(peer, ask):
    async with peer.gateway(max_retries=1) as gateway:
        with pytest.raises(ServerFailed, match=r"Unavailable\.") as caught:
            await ask(gateway, question("Too busy."))
    assert (caught.value.status, caught.value.retryable) == (503, True)
    assert len(peer.seen()) == 2


async def test_a_wrong_key_is_rejected_and_hidden(peer, ask):
    async with peer.gateway(api_key="sk-the-wrong-key", max_retries=2) as gateway:
        with pytest.raises(AuthenticationFailed, match="Invalid API key") as caught:
            await ask(gateway, question("Say hello."))
    assert (caught.value.status, caught.value.retryable) == (401, False)
    assert "sk-the-wrong-key" not in str(caught.value)


async def test_a_wrong_base_url_is_an_invalid_request(peer, ask):
    async with peer.gateway(base_url=f"{peer.server}/__aimock/nowhere", max_retries=2) as gateway:
        with pytest.raises(InvalidRequest, match="Check the model name and the base URL") as caught:
            await ask(gateway, question("Say hello."))
    assert (caught.value.status, caught.value.retryable) == (404, False)


async def test_an_invalid_request_is_not_retried(peer, ask):
    async with peer.gateway(max_retries=2) as gateway:
        with pytest.raises(InvalidRequest, match=r"No such thing\.") as caught:
            await ask(gateway, question("Nonsense."))
    assert (type(caught.value), caught.value.status) == (InvalidRequest, 400)
    assert len(peer.seen()) == 1


async def test_a_context_overflow_is_distinguished_from_other_invalid_requests(peer, ask):
    async with peer.gateway(max_retries=2) as gateway:
        with pytest.raises(ContextOverflow, match="8192 tokens"):
            await ask(gateway, question("Too long."))
    assert len(peer.seen()) == 1


# ---- missing replies


async def test_a_server_that_closes_the_connection_without_a_reply_is_a_failed_connection(
    peer, ask
):
    async with peer.gateway() as gateway:
        with pytest.raises(ConnectionFailed) as caught:
            await ask(gateway, question("Hang up."))
    assert (caught.value.status, caught.value.retryable) == (None, True)


async def test_a_closed_connection_is_retried(peer, ask):
    async with peer.gateway(max_retries=1) as gateway:
        reply = await ask(gateway, question("Hang up."))
    assert reply.content == "Now."


async def test_invalid_json_is_malformed_and_not_retried(peer, ask):
    async with peer.gateway(max_retries=2) as gateway:
        with pytest.raises(MalformedResponse):
            await ask(gateway, question("Garble."))
    assert len(peer.seen()) == 1


async def test_a_silent_server_is_a_timeout(peer, ask):
    async with peer.gateway(timeout=Timeouts(read=0.2)) as gateway:
        with pytest.raises(RequestTimeout, match="timeout="):
            await ask(gateway, question("Be silent."))


# ---- truncated streams


async def events_of(stream):
    """Return the events of a stream, and its error."""
    events = []
    try:
        async for event in stream:
            events.append(event)
    except GatewayError as error:
        return events, error
    return events, None


async def test_a_truncated_stream_reports_its_events_and_fails(peer):
    async with (
        peer.gateway(max_retries=2) as gateway,
        gateway.stream(question("Cut the words.")) as stream,
    ):
        events, error = await events_of(stream)
    assert (type(error), error.retryable) == (StreamInterrupted, True)
    text = "".join(event.delta for event in events if event.name == "text")
    assert text == stream.current_message.text
    assert "This stream is cut in its middle.".startswith(text)
    assert text not in ("", "This stream is cut in its middle.")
    names = [event.name for event in events]
    assert (names[0], names[-2:]) == ("connect", ["error", "end"])
    assert not {"message", "final_message"} & {*names}


async def test_a_truncated_stream_is_not_retried_after_its_first_words(peer):
    async with peer.gateway(max_retries=2) as gateway:
        with pytest.raises(StreamInterrupted):
            await gateway.stream(question("Cut the words.")).final_message()
    assert len(peer.seen()) == 1


@pytest.mark.parametrize(
    "peer", ["openai", "anthropic", "openai-responses"], indirect=True
)  # Gemini sends a call in one piece
async def test_a_truncated_call_is_not_reported_as_a_call(peer):
    async with (
        peer.gateway() as gateway,
        gateway.stream(question("Cut the call."), tools=[WEATHER]) as stream,
    ):
        events, error = await events_of(stream)
    names = {event.name for event in events}
    assert type(error) is StreamInterrupted
    assert "input_json" in names
    assert not {"tool_call", "message", "final_message"} & names


async def test_a_stream_that_stalls_is_a_timeout(peer):
    async with (
        peer.gateway(timeout=Timeouts(read=0.2)) as gateway,
        gateway.stream(question("Stall.")) as stream,
    ):
        with pytest.raises(RequestTimeout, match="timeout="):
            await stream.final_message()
