import asyncio
import tempfile
from contextlib import aclosing
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import ConfigurationError, Gateway, MalformedResponse, ScriptedModel
from stage0_gateway.recording.recorder import Recorder
from stage0_gateway.recording.replayer import Replayer, ReplayMiss
from tests.stage0_gateway.requests import QUESTION
from tests.stage0_gateway.servers import Answers, Body

URL = "https://api.test/v1/chat"


async def post(transport, body, url=URL, **options):
    async with httpx.AsyncClient(transport=transport) as client:
        return (await client.post(url, json=body, **options)).text


async def record(path, *exchanges, **options):
    """Record pairs of a request body and an answer."""
    server = Answers(*([text.encode()] for _, text in exchanges))
    recorder = Recorder(path, server, **options)
    for body, _ in exchanges:
        await post(recorder, body)


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
    body = Body([*chunks, end] if end else chunks)
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    server = Answers(httpx.Response(status, headers=sent, stream=body))
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
            return await gateway.chat(QUESTION)

    live = await reply(Recorder(path, ScriptedModel(["Sunny, 22 °C."])), "sk-1234")
    assert await reply(Replayer(path), "other", "http://h.test/v1") == live


async def test_equal_requests_are_answered_in_recorded_order_and_each_answer_is_used_once(path):
    await record(path, ({"a": 1}, "first"), ({"b": 1}, "other"), ({"a": 1}, "second"))
    replayer = Replayer(path)
    assert [await post(replayer, body) for body in ({"a": 1}, {"a": 1}, {"b": 1})] == [
        "first",
        "second",
        "other",
    ]
    with pytest.raises(ReplayMiss) as caught:
        await post(replayer, {"a": 1})
    assert str(caught.value) == ("POST /v1/chat does not match any of 0 remaining exchanges.")


async def test_the_order_of_fields_in_a_body_is_ignored(path):
    await record(path, ({"a": 1, "b": {"c": 2, "d": 3}}, "yes"))
    assert await post(Replayer(path), {"b": {"d": 3, "c": 2}, "a": 1}) == "yes"


async def test_an_empty_recording_matches_no_request(path):
    path.write_text("")
    with pytest.raises(ReplayMiss, match=r"any of 0 remaining exchanges\.$"):
        await post(Replayer(path), {})


@pytest.mark.parametrize(
    ("recorded", "sent"),
    [("?key=k-1234", ""), ("", "?api_key=k-1234"), ("?alt=sse&key=k-1234", "?key=k-9999&alt=sse")],
)
async def test_credentials_in_the_query_are_ignored(path, recorded, sent):
    await post(Recorder(path, Answers([b"yes"])), {}, URL + recorded)
    assert await post(Replayer(path), {}, URL + sent) == "yes"


@pytest.mark.parametrize("sent", ["?alt=json", "", "?alt=sse&more=1"])
async def test_the_rest_of_the_query_is_compared(path, sent):
    await post(Recorder(path, Answers([b"yes"])), {}, URL + "?alt=sse")
    with pytest.raises(ReplayMiss, match=r"\n-POST /v1/chat\?alt=sse\n\+POST /v1/chat"):
        await post(Replayer(path), {}, URL + sent)


async def test_a_hidden_secret_matches_any_value_in_its_position(path):
    body = {"password": "hunter22", "key": "sk-1234"}
    headers = {"authorization": "Bearer sk-1234"}
    recorder = Recorder(path, Answers([b"yes"]), secrets=["hunter22"])
    await post(recorder, body, headers=headers)
    assert await post(Replayer(path, secrets=["hunter22"]), body, headers=headers) == "yes"
    other = {"password": "no secret", "key": "sk-5678"}
    headers = {"authorization": "Bearer sk-5678"}
    assert await post(Replayer(path, secrets="no secret"), other, headers=headers) == "yes"


async def test_a_placeholder_key_may_be_equal_to_a_word_in_the_request(path):
    await record(path, ({"text": "this is a test"}, "yes"))
    assert (
        await post(Replayer(path), {"text": "this is a test"}, headers={"x-api-key": "test"})
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
    await post(replayer, {"model": "m", "messages": messages, "temperature": 0})
    with pytest.raises(ReplayMiss) as caught:
        await post(replayer, {"model": "m", "messages": messages, "temperature": 1})
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
        await post(Replayer(path), {"content": words + "No?!" + words})
    shown = str(caught.value).split("\n")
    changed = [line for line in shown if line[:1] in "-+" and line[:3] not in ("---", "+++")]
    assert ["Yes!" in changed[0], "No?!" in changed[1], len(changed)] == [True, True, 2]
    assert max(map(len, shown)) < 110


async def test_a_long_difference_is_truncated(path):
    await record(path, ({"a": [*range(100)]}, "yes"))
    with pytest.raises(ReplayMiss) as caught:
        await post(Replayer(path), {"a": [*range(100, 200)]})
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
        await post(Replayer(path), {"b": "sk-5678"}, URL + "?key=sk-9999", headers=headers)
    assert "sk-" not in str(caught.value)
    assert "[hidden]" in str(caught.value)


async def test_a_miss_is_not_a_connection_failure_and_is_not_retried(path):
    await record(path, ({"a": 1}, "yes"))
    events = []
    gateway = Gateway("openai:m", transport=Replayer(path), on_event=events.append)
    with pytest.raises(ReplayMiss, match="POST /v1/chat/completions"):
        await gateway.chat(QUESTION)
    assert [type(event).__name__ for event in events] == ["RequestEvent"]


async def test_a_recorded_connection_failure_is_repeated_once(path):
    async def twice(transport):
        with pytest.raises(httpx.ConnectError, match="refused") as caught:
            await post(transport, {})
        return str(caught.value.request.url), await post(transport, {})

    assert await twice(Recorder(path, Answers(httpx.ConnectError("refused"), [b"yes"]))) == (
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

    assert await first(Recorder(path, Answers([b"one", b"two"])), 1) == [b"one"]
    assert await first(Replayer(path), 1) == [b"one"]
    with pytest.raises(ReplayMiss, match="line 1 of the recording ends here"):
        await first(Replayer(path), 2)


async def test_two_replayed_streams_alternate(path):
    recorder = Recorder(path, Answers([b"a1", b"a2"], [b"b1", b"b2"]))
    for body in ("a", "b"):
        await post(recorder, body)
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
    headers = {"content-encoding": "gzip"}
    server = Answers(httpx.Response(200, headers=headers, stream=Body([b"\x1f\x8b"])))
    errors = []
    for transport in (lambda: Recorder(path, server), lambda: Replayer(path)):
        async with Gateway("openai:m", transport=transport()) as gateway:
            with pytest.raises(MalformedResponse, match="content encoding 'gzip'") as caught:
                await gateway.chat(QUESTION)
            errors.append(str(caught.value))
    assert errors[0] == errors[1]
