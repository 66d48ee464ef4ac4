import asyncio
import tempfile
from contextlib import aclosing
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import ConfigurationError, Gateway, MalformedResponse, Message, ScriptedModel
from stage0_gateway.recording.recorder import Recorder
from stage0_gateway.recording.replayer import Replayer, ReplayMiss

URL = "https://api.test/v1/chat"


class Stream(httpx.AsyncByteStream):
    """Sends chunks, and raises exceptions among them."""

    def __init__(self, chunks):
        self.chunks = chunks

    async def __aiter__(self):
        for chunk in self.chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk


def answering(*answers):
    """Return a transport that sends the next list of chunks, or raises the next error, for each
    request."""
    left = iter(answers)

    def answer(request):
        found = next(left)
        if isinstance(found, Exception):
            raise found
        return httpx.Response(200, stream=Stream(found))

    return httpx.MockTransport(answer)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "recording.jsonl"


async def ask(transport, body, url=URL, **options):
    async with httpx.AsyncClient(transport=transport) as client:
        return (await client.post(url, json=body, **options)).text


async def record(path, *exchanges, **options):
    """Record pairs of a request body and an answer."""
    recorder = Recorder(path, answering(*([text.encode()] for _, text in exchanges)), **options)
    for body, _ in exchanges:
        await ask(recorder, body)


async def observed(transport):
    """Return everything that a client can observe of one stream."""
    chunks = []
    async with httpx.AsyncClient(transport=transport) as client:
        try:
            async with client.stream("GET", URL) as reply:
                async for chunk in reply.aiter_raw():
                    chunks.append(chunk)
        except httpx.RequestError as error:
            return reply.status_code, dict(reply.headers), chunks, type(error), str(error)
    return reply.status_code, dict(reply.headers), chunks


CHUNKS = st.lists(st.binary() | st.text().map(str.encode), max_size=5)
ENDS = st.sampled_from(
    [None, httpx.ReadError("reset"), httpx.RemoteProtocolError("x"), httpx.ReadTimeout("")]
)


@given(CHUNKS, ENDS, st.sampled_from([200, 404, 503]), st.sampled_from([{}, {"x-a": "b ü"}]))
def test_a_replay_equals_the_recorded_exchange(chunks, end, status, headers):
    stream = Stream([*chunks, end] if end else chunks)
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    server = httpx.MockTransport(
        lambda request: httpx.Response(status, headers=sent, stream=stream)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording.jsonl"
        live = asyncio.run(observed(Recorder(path, server)))
        assert asyncio.run(observed(Replayer(path))) == live
    assert live[:3] == (status, headers, [chunk for chunk in chunks if chunk])


async def test_a_gateway_with_another_key_and_url_gets_the_same_reply_from_a_recording(
    path,
):
    async def reply(transport, key, base_url=None):
        async with Gateway(
            "openai:m", api_key=key, base_url=base_url, transport=transport
        ) as gateway:
            return await gateway.chat([Message.user("Weather?")])

    live = await reply(Recorder(path, ScriptedModel(["Sunny, 22 °C."])), "sk-1234")
    assert await reply(Replayer(path), "other", "http://h.test/v1") == live


async def test_equal_requests_are_answered_in_recorded_order_and_each_answer_is_used_once(path):
    await record(path, ({"a": 1}, "first"), ({"b": 1}, "other"), ({"a": 1}, "second"))
    replayer = Replayer(path)
    assert [await ask(replayer, body) for body in ({"a": 1}, {"a": 1}, {"b": 1})] == [
        "first",
        "second",
        "other",
    ]
    with pytest.raises(ReplayMiss) as caught:
        await ask(replayer, {"a": 1})
    assert str(caught.value) == ("POST /v1/chat does not match any of 0 remaining exchanges.")


async def test_the_order_of_fields_in_a_body_is_ignored(path):
    await record(path, ({"a": 1, "b": {"c": 2, "d": 3}}, "yes"))
    assert await ask(Replayer(path), {"b": {"d": 3, "c": 2}, "a": 1}) == "yes"


async def test_an_empty_recording_matches_no_request(path):
    path.write_text("")
    with pytest.raises(ReplayMiss, match=r"any of 0 remaining exchanges\.$"):
        await ask(Replayer(path), {})


@pytest.mark.parametrize(
    ("recorded", "asked"),
    [("?key=k-1234", ""), ("", "?api_key=k-1234"), ("?alt=sse&key=k-1234", "?key=k-9999&alt=sse")],
)
async def test_credentials_in_the_query_are_ignored(path, recorded, asked):
    await ask(Recorder(path, answering([b"yes"])), {}, URL + recorded)
    assert await ask(Replayer(path), {}, URL + asked) == "yes"


@pytest.mark.parametrize("asked", ["?alt=json", "", "?alt=sse&more=1"])
async def test_the_rest_of_the_query_is_compared(path, asked):
    await ask(Recorder(path, answering([b"yes"])), {}, URL + "?alt=sse")
    with pytest.raises(ReplayMiss, match=r"\n-POST /v1/chat\?alt=sse\n\+POST /v1/chat"):
        await ask(Replayer(path), {}, URL + asked)


async def test_a_hidden_secret_matches_any_value_in_its_position(path):
    body = {"password": "hunter22", "key": "sk-1234"}
    headers = {"authorization": "Bearer sk-1234"}
    recorder = Recorder(path, answering([b"yes"]), secrets=["hunter22"])
    await ask(recorder, body, headers=headers)
    assert await ask(Replayer(path, secrets=["hunter22"]), body, headers=headers) == "yes"
    other = {"password": "no secret", "key": "sk-5678"}
    headers = {"authorization": "Bearer sk-5678"}
    assert await ask(Replayer(path, secrets="no secret"), other, headers=headers) == "yes"


async def test_a_placeholder_key_may_be_equal_to_a_word_in_the_request(path):
    await record(path, ({"text": "this is a test"}, "yes"))
    assert (
        await ask(Replayer(path), {"text": "this is a test"}, headers={"x-api-key": "test"})
        == "yes"
    )


async def test_a_miss_shows_the_difference_to_the_next_recorded_exchange(path):
    messages = [{"role": "user", "content": "Weather in Beijing?"}]
    await record(
        path,
        ({"model": "m", "messages": messages, "temperature": 0}, "used"),
        ({"model": "m", "messages": messages, "temperature": 0.5}, "next"),
        ({"input": "something else"}, "last"),
    )
    replayer = Replayer(path)
    await ask(replayer, {"model": "m", "messages": messages, "temperature": 0})
    with pytest.raises(ReplayMiss) as caught:
        await ask(replayer, {"model": "m", "messages": messages, "temperature": 1})
    assert str(caught.value).split("\n") == [
        "POST /v1/chat does not match any of 2 remaining exchanges.",
        "The next one is on line 2:",
        "--- recorded",
        "+++ sent",
        "@@ -9,3 +9,3 @@",
        '   "model": "m",',
        '-  "temperature": 0.5',
        '+  "temperature": 1',
        " }",
    ]


async def test_a_long_value_shows_only_its_differing_lines(path):
    words = "So much is the same. " * 50
    await record(path, ({"content": words + "Yes!" + words}, "yes"))
    with pytest.raises(ReplayMiss) as caught:
        await ask(Replayer(path), {"content": words + "No?!" + words})
    shown = str(caught.value).split("\n")
    changed = [line for line in shown if line[:1] in "-+" and line[:3] not in ("---", "+++")]
    assert [
        "Yes!" in changed[0],
        "No?!" in changed[1],
        len(changed),
        max(map(len, shown)) < 110,
    ] == [
        True,
        True,
        2,
        True,
    ]


async def test_a_long_difference_is_truncated(path):
    await record(path, ({"a": [*range(100)]}, "yes"))
    with pytest.raises(ReplayMiss) as caught:
        await ask(Replayer(path), {"a": [*range(100, 200)]})
    shown = str(caught.value).split("\n")
    assert (len(shown), shown[-1]) == (18, "… 190 more lines")


@pytest.mark.parametrize("content", [b"plain\ntext", b"", b"\xff"])
async def test_any_body_can_be_reported_as_a_miss(path, content):
    await record(path, ({"a": 1}, "yes"))
    async with httpx.AsyncClient(transport=Replayer(path)) as client:
        with pytest.raises(ReplayMiss, match="--- recorded"):
            await client.post(URL, content=content)


async def test_a_miss_shows_no_secret(path):
    await record(path, ({"a": "sk-1234"}, "yes"), secrets=["sk-1234"])
    headers = {"authorization": "Bearer sk-5678"}
    with pytest.raises(ReplayMiss) as caught:
        await ask(Replayer(path), {"b": "sk-5678"}, URL + "?key=sk-9999", headers=headers)
    assert "sk-" not in str(caught.value)
    assert "[hidden]" in str(caught.value)


async def test_a_miss_is_not_a_connection_failure_and_is_not_retried(path):
    await record(path, ({"a": 1}, "yes"))
    events = []
    gateway = Gateway("openai:m", transport=Replayer(path), on_event=events.append)
    with pytest.raises(ReplayMiss, match="POST /v1/chat/completions"):
        await gateway.chat([Message.user("hi")])
    assert [type(event).__name__ for event in events] == ["RequestEvent"]


async def test_a_recorded_connection_failure_is_repeated_once(path):
    async def twice(transport):
        with pytest.raises(httpx.ConnectError, match="refused") as caught:
            await ask(transport, {})
        return str(caught.value.request.url), await ask(transport, {})

    assert await twice(Recorder(path, answering(httpx.ConnectError("refused"), [b"yes"]))) == (
        URL,
        "yes",
    )
    assert await twice(Replayer(path)) == (URL, "yes")


async def test_reading_beyond_the_recorded_part_of_a_stream_is_a_miss(path):
    async def first(transport, number):
        async with (
            httpx.AsyncClient(transport=transport) as client,
            client.stream("GET", URL) as reply,
            aclosing(reply.aiter_raw()) as chunks,
        ):
            return [await anext(chunks) for _ in range(number)]

    assert await first(Recorder(path, answering([b"one", b"two"])), 1) == [b"one"]
    assert await first(Replayer(path), 1) == [b"one"]
    with pytest.raises(ReplayMiss, match="line 1 of the recording ends here"):
        await first(Replayer(path), 2)


async def test_two_replayed_streams_alternate(path):
    recorder = Recorder(path, answering([b"a1", b"a2"], [b"b1", b"b2"]))
    for body in ("a", "b"):
        await ask(recorder, body)
    seen = []

    async def read(client, body):
        async with client.stream("POST", URL, json=body) as reply:
            async for chunk in reply.aiter_raw():
                seen.append(chunk)

    async with httpx.AsyncClient(transport=Replayer(path)) as client:
        await asyncio.gather(read(client, "a"), read(client, "b"))
    assert seen == [b"a1", b"b1", b"a2", b"b2"]


@pytest.mark.parametrize("line", [b"no json", b"{}", b"\xff\xfe", b"[" * 100_000], ids=range(4))
async def test_an_invalid_recording_is_rejected_with_the_line_number(path, line):
    await record(path, ({"a": 1}, "yes"))
    path.write_bytes(path.read_bytes() + b"\n" + line)
    with pytest.raises(ConfigurationError, match=r"is not a recording: line 3: .+"):
        Replayer(path)


def test_a_missing_file_is_rejected_with_a_hint(tmp_path):
    with pytest.raises(ConfigurationError, match=r"cannot be read \(No such file.*Record it first"):
        Replayer(tmp_path / "none.jsonl")


async def test_a_compressed_reply_is_rejected_alike_in_a_recording_and_in_a_replay(path):
    def compressed(request):
        return httpx.Response(
            200, headers={"content-encoding": "gzip"}, stream=Stream([b"\x1f\x8b"])
        )

    errors = []
    for transport in (
        lambda: Recorder(path, httpx.MockTransport(compressed)),
        lambda: Replayer(path),
    ):
        async with Gateway("openai:m", api_key="sk-1", transport=transport()) as gateway:
            with pytest.raises(MalformedResponse, match="content encoding 'gzip'") as caught:
                await gateway.chat([Message.user("hi")])
            errors.append(str(caught.value))
    assert errors[0] == errors[1]
