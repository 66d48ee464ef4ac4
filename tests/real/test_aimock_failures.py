"""Failures that aimock plays, in three formats, asked for whole replies and for streams."""

import pytest

from stage0_gateway import (
    AuthenticationFailed,
    ConnectionFailed,
    ContextOverflow,
    GatewayError,
    InvalidRequest,
    MalformedResponse,
    Message,
    RateLimited,
    RequestTimeout,
    ServerFailed,
    StreamInterrupted,
    Timeouts,
    ToolSpec,
)

pytestmark = pytest.mark.real
WEATHER = ToolSpec("get_weather", "The weather in a city.", {"type": "object", "properties": {}})


def said(text):
    return [Message.user(text)]


# ---- refused
# ---------------------------------------------------------------------------------------------


async def test_a_rate_limit_says_how_long_to_wait(peer, ask):
    async with peer.gateway() as gateway:
        with pytest.raises(RateLimited, match=r"Slow down\.") as caught:
            await ask(gateway, said("Too fast."))
    assert (caught.value.status, caught.value.retryable, caught.value.retry_after) == (
        429,
        True,
        7.0,
    )


async def test_after_a_rate_limit_the_second_try_succeeds(peer, ask):
    events = []
    async with peer.gateway(max_retries=1, on_event=events.append) as gateway:
        reply = await ask(gateway, said("Too fast."))
    assert reply.content == "Now."
    assert [event.name for event in events] == ["request", "retry", "request", "response"]


async def test_overloaded_and_unavailable_servers_are_asked_again(peer, ask):
    async with peer.gateway(max_retries=2) as gateway:
        reply = await ask(gateway, said("Too busy."))
    assert reply.content == "Now."
    assert len(peer.seen()) == 3


async def test_when_no_try_is_left_the_last_refusal_is_told(peer, ask):
    async with peer.gateway(max_retries=1) as gateway:
        with pytest.raises(ServerFailed, match=r"Unavailable\.") as caught:
            await ask(gateway, said("Too busy."))
    assert (caught.value.status, caught.value.retryable) == (503, True)
    assert len(peer.seen()) == 2


async def test_a_wrong_key_is_refused_and_not_shown(peer, ask):
    async with peer.gateway(api_key="sk-the-wrong-key", max_retries=2) as gateway:
        with pytest.raises(AuthenticationFailed, match="Invalid API key") as caught:
            await ask(gateway, said("Say hello."))
    assert (caught.value.status, caught.value.retryable) == (401, False)
    assert "sk-the-wrong-key" not in str(caught.value)


async def test_a_wrong_base_url_is_an_invalid_request(peer, ask):
    async with peer.gateway(base_url=f"{peer.server}/__aimock/nowhere", max_retries=2) as gateway:
        with pytest.raises(InvalidRequest, match="Check the model name and the base URL") as caught:
            await ask(gateway, said("Say hello."))
    assert (caught.value.status, caught.value.retryable) == (404, False)


async def test_a_request_the_server_does_not_take_is_not_sent_again(peer, ask):
    async with peer.gateway(max_retries=2) as gateway:
        with pytest.raises(InvalidRequest, match=r"No such thing\.") as caught:
            await ask(gateway, said("Nonsense."))
    assert (type(caught.value), caught.value.status) == (InvalidRequest, 400)
    assert len(peer.seen()) == 1


async def test_too_long_a_prompt_is_told_from_other_bad_requests(peer, ask):
    async with peer.gateway(max_retries=2) as gateway:
        with pytest.raises(ContextOverflow, match="8192 tokens"):
            await ask(gateway, said("Too long."))
    assert len(peer.seen()) == 1


# ---- not answered
# ----------------------------------------------------------------------------------------


async def test_a_server_that_hangs_up_before_it_answers_has_failed_the_connection(peer, ask):
    async with peer.gateway() as gateway:
        with pytest.raises(ConnectionFailed) as caught:
            await ask(gateway, said("Hang up."))
    assert (caught.value.status, caught.value.retryable) == (None, True)


async def test_a_server_that_hung_up_is_asked_again(peer, ask):
    async with peer.gateway(max_retries=1) as gateway:
        reply = await ask(gateway, said("Hang up."))
    assert reply.content == "Now."


async def test_what_is_no_json_is_malformed_and_not_asked_for_again(peer, ask):
    async with peer.gateway(max_retries=2) as gateway:
        with pytest.raises(MalformedResponse):
            await ask(gateway, said("Garble."))
    assert len(peer.seen()) == 1


async def test_a_server_that_keeps_silent_runs_out_of_time(peer, ask):
    async with peer.gateway(timeout=Timeouts(read=0.2)) as gateway:
        with pytest.raises(RequestTimeout, match="timeout="):
            await ask(gateway, said("Be silent."))


# ---- cut
# -------------------------------------------------------------------------------------------------


async def watched(stream):
    """The events of a stream, and the error it ended with."""
    events = []
    try:
        async for event in stream:
            events.append(event)
    except GatewayError as error:
        return events, error
    return events, None


async def test_a_stream_that_is_cut_tells_what_came_and_fails(peer):
    async with (
        peer.gateway(max_retries=2) as gateway,
        gateway.stream(said("Cut the words.")) as stream,
    ):
        events, error = await watched(stream)
    assert (type(error), error.retryable) == (StreamInterrupted, True)
    text = "".join(event.delta for event in events if event.name == "text")
    assert text == stream.current_message.text
    assert "This stream is cut in its middle.".startswith(text)
    assert text not in ("", "This stream is cut in its middle.")
    names = [event.name for event in events]
    assert (names[0], names[-2:]) == ("connect", ["error", "end"])
    assert not {"message", "final_message"} & {*names}


async def test_a_stream_that_is_cut_after_its_first_words_is_not_asked_for_again(peer):
    async with peer.gateway(max_retries=2) as gateway:
        with pytest.raises(StreamInterrupted):
            await gateway.stream(said("Cut the words.")).final_message()
    assert len(peer.seen()) == 1


@pytest.mark.parametrize(
    "peer", ["openai", "anthropic"], indirect=True
)  # Gemini sends a call in one piece
async def test_half_a_call_is_never_told_as_a_call(peer):
    async with (
        peer.gateway() as gateway,
        gateway.stream(said("Cut the call."), tools=[WEATHER]) as stream,
    ):
        events, error = await watched(stream)
    names = {event.name for event in events}
    assert type(error) is StreamInterrupted
    assert "input_json" in names
    assert not {"tool_call", "message", "final_message"} & names


async def test_a_stream_that_stalls_runs_out_of_time(peer):
    async with (
        peer.gateway(timeout=Timeouts(read=0.2)) as gateway,
        gateway.stream(said("Stall.")) as stream,
    ):
        with pytest.raises(RequestTimeout, match="timeout="):
            await stream.final_message()
