import asyncio
import gzip
import json
import os
import stat
import sys
from base64 import b64encode
from contextlib import asynccontextmanager
from urllib.parse import quote

import httpx
import pytest

from stage0_gateway import ConfigurationError, Gateway, ScriptedModel, ScriptError
from stage0_gateway.recording.recorder import Recorder
from tests.stage0_gateway.replies import completion
from tests.stage0_gateway.requests import QUESTION
from tests.stage0_gateway.servers import Answers, Body, run_other_tasks

URL = "https://api.test/v1/chat"
REQUEST = {"method": "POST", "url": URL, "body": {"a": 1}}
SECRET = 'sk-/"ü\\-secret'  # it is escaped in JSON and in a URL


def streaming(*chunks, **options):
    return httpx.Response(200, stream=Body(chunks), **options)


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


@asynccontextmanager
async def streamed(recorder):
    async with httpx.AsyncClient(transport=recorder) as client, client.stream("GET", URL) as reply:
        yield reply


async def post(recorder, **request):
    async with httpx.AsyncClient(transport=recorder) as client:
        return await client.post(URL, **request or {"json": {"a": 1}})


async def test_an_exchange_is_written_as_one_readable_line(path):
    answer = streaming(b"data: 1\n\n", "data: ü\n\n".encode(), headers={"x-request-id": "r1"})
    reply = await post(Recorder(path, Answers(answer)))
    assert reply.text == "data: 1\n\ndata: ü\n\n"
    assert path.read_text("utf-8") == (
        '{"request": {"method": "POST", "url": "https://api.test/v1/chat", '
        '"body": {"a": 1}}, '
        '"response": {"status": 200, "headers": {"x-request-id": "r1"}, '
        '"chunks": ["data: 1\\n\\n", "data: ü\\n\\n"]}}\n'
    )


async def test_each_chunk_is_forwarded_at_once_and_written_at_the_end(path):
    answer = streaming(b"one", b"two", b"three")
    async with streamed(Recorder(path, Answers(answer))) as reply:
        chunks = reply.aiter_raw()
        assert (await anext(chunks), answer.stream.sent, lines(path)) == (b"one", 1, [])
        assert [chunk async for chunk in chunks] == [b"two", b"three"]
        assert lines(path)[0]["response"]["chunks"] == ["one", "two", "three"]
    assert len(lines(path)) == 1
    assert answer.stream.closed == 1


async def test_a_character_that_is_split_is_stored_as_bytes(path):
    first, second = "ü".encode()[:1], "ü".encode()[1:]
    await post(Recorder(path, Answers(streaming(b"a", first, second, b""))))
    assert lines(path)[0]["response"]["chunks"] == ["a", "\udcc3", "\udcbc", ""]


async def test_the_request_is_forwarded_unchanged(path):
    server = Answers(streaming(b"yes"))
    headers = {"authorization": "Bearer sk-1", "x-more": "1"}
    reply = await post(Recorder(path, server), content=b"\x00\xff", headers=headers)
    assert server.requests == [reply.request]


def spellings(secret):
    """Yield spellings of a secret that a file must not contain."""
    yield from (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    yield from (quote(secret), quote(secret, safe=""), b64encode(secret.encode()).decode())
    yield json.dumps(json.dumps(secret))[3:-3]
    yield "secret"


@pytest.mark.parametrize(
    "sent",
    [
        {"headers": {"authorization": f"Bearer {SECRET}".encode()}},
        {"headers": {"x-api-key": SECRET.encode()}},
        {"headers": {"x-goog-api-key": SECRET.encode()}},
        {"headers": {"cookie": f"a=1; session={SECRET}".encode()}},
        {"headers": {"authorization": "Basic " + b64encode(f"me:{SECRET}".encode()).decode()}},
        {"params": {"alt": "sse", "key": SECRET}},
        {"params": {"api_key": SECRET}},
        {"auth": ("me", SECRET)},
        {},
    ],
    ids=[
        "bearer",
        "x-api-key",
        "x-goog-api-key",
        "cookie",
        "basic",
        "key",
        "api_key",
        "user",
        "named",
    ],
)
async def test_a_secret_is_not_in_the_file(path, sent):
    basic = b64encode(f"me:{SECRET}".encode()).decode()
    body = {"echo": SECRET, "nested": json.dumps({"key": SECRET}), "url": quote(SECRET, safe="")}
    text = json.dumps(body).encode() + SECRET.encode() + (basic.encode() if "user" in sent else b"")
    server = Answers(
        streaming(
            *(text[at : at + 3] for at in range(0, len(text), 3)),
            headers={"x-echo": SECRET.encode()},
        ),
        streaming(gzip.compress(text), headers={"content-encoding": "gzip"}),
        streaming(b"a ", httpx.ReadError(f"{SECRET} is wrong")),
        httpx.ConnectError(f"{SECRET} is wrong"),
    )
    recorder = Recorder(path, server, secrets=() if sent else [SECRET + "\n"])
    async with httpx.AsyncClient(transport=recorder) as client:
        for _ in range(2):
            await client.post(URL, json={**body, SECRET: 1}, **sent)
        for kind in (httpx.ReadError, httpx.ConnectError):
            with pytest.raises(kind):
                await client.post(URL, content=f"as text: {SECRET}", **sent)
    file = path.read_text("utf-8")
    assert [spelled for spelled in spellings(SECRET) if spelled in file] == []
    assert len(lines(path)) == 4
    assert (file.count("[hidden]") >= 3 * 4, "***" in file) == (True, True)


async def test_a_password_in_the_url_is_not_in_the_file(path):
    basic = b64encode(b"me:hunter22").decode()
    recorder = Recorder(path, Answers(streaming(f"no hunter22, no {basic}".encode())))
    async with httpx.AsyncClient(transport=recorder) as client:
        await client.get("https://me:hunter22@api.test/v1?a=1&token=t-1234#part")
    assert lines(path)[0]["request"]["url"] == "https://api.test/v1?a=1&token=[hidden]"
    assert lines(path)[0]["response"]["chunks"] == [f"no {'*' * 8}, no {'*' * len(basic)}"]


async def test_a_single_secret_may_be_given_without_a_list(path):
    await post(Recorder(path, Answers(streaming(b"a hunter22")), secrets="hunter22"))
    assert lines(path)[0]["response"]["chunks"] == ["a ********"]


@pytest.mark.parametrize(
    "error", [httpx.ReadError("reset"), httpx.RemoteProtocolError("hung up"), httpx.ReadTimeout("")]
)
async def test_a_broken_stream_is_recorded_up_to_the_failure(path, error):
    with pytest.raises(type(error)):
        await post(Recorder(path, Answers(streaming(b"one", b"two", error))))
    recorded = lines(path)[0]["response"]
    assert (recorded["chunks"], recorded["cut"]) == (
        ["one", "two"],
        f"{type(error).__name__}: {error}",
    )


async def test_an_abandoned_stream_is_recorded_as_far_as_it_was_read(path):
    answer = streaming(b"one", b"two", b"three")
    async with streamed(Recorder(path, Answers(answer))) as reply:
        async for chunk in reply.aiter_raw():
            if chunk == b"two":
                break
    recorded = lines(path)[0]["response"]
    assert (recorded["chunks"], recorded["cut"]) == (["one", "two"], "abandoned")
    assert answer.stream.closed == 1


async def test_a_secret_that_a_broken_stream_truncates_is_hidden(path):
    answer = streaming(b"key: sk-1234567", httpx.ReadError("reset"))
    with pytest.raises(httpx.ReadError):
        await post(Recorder(path, Answers(answer), secrets=["sk-1234567890abcdef"]))
    assert lines(path)[0]["response"]["chunks"] == ["key: **********"]


async def test_a_failed_connection_is_recorded(path):
    with pytest.raises(httpx.ConnectError):
        await post(Recorder(path, Answers(httpx.ConnectError("refused"))))
    assert lines(path) == [{"request": REQUEST, "error": "ConnectError: refused"}]


async def test_exceptions_that_are_not_transport_errors_are_not_recorded(path):
    recorder = Recorder(path, ScriptedModel([]))
    with pytest.raises(ScriptError):
        await Gateway("openai:m", transport=recorder).chat(QUESTION)
    assert lines(path) == []


async def test_a_request_that_is_cancelled_before_the_reply_is_not_recorded(path):
    arrived = asyncio.Event()

    async def hang(request):
        arrived.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(post(Recorder(path, httpx.MockTransport(hang))))
    await arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lines(path) == []


async def test_a_cancelled_stream_is_recorded_as_far_as_it_was_read(path):
    body = Body([b"one", None])
    task = asyncio.create_task(post(Recorder(path, Answers(body))))
    await run_other_tasks()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    recorded = lines(path)[0]["response"]
    assert (recorded["chunks"], recorded["cut"]) == (["one"], "abandoned")


async def test_two_concurrent_streams_are_two_complete_lines(path):
    server = Answers(streaming(b"a1", b"a2", b"a3"), streaming(b"b1"))
    recorder = Recorder(path, server)
    async with streamed(recorder) as first, streamed(recorder) as second:
        chunks = first.aiter_raw()
        assert await anext(chunks) == b"a1"
        assert await second.aread() == b"b1"
        assert [chunk async for chunk in chunks] == [b"a2", b"a3"]
    assert [line["response"]["chunks"] for line in lines(path)] == [["b1"], ["a1", "a2", "a3"]]


async def test_an_existing_file_is_not_overwritten_and_nothing_is_sent(path):
    path.write_text("mine")
    server = Answers(200)
    with pytest.raises(
        ConfigurationError, match=r"recording\.jsonl cannot be created \(File exists\)"
    ):
        await post(Recorder(path, server))
    assert (path.read_text(), server.requests) == ("mine", [])


async def test_a_path_that_cannot_be_created_is_rejected_before_sending(tmp_path):
    server = Answers(200)
    with pytest.raises(
        ConfigurationError, match=r"a.jsonl cannot be created \(No such file or directory\)"
    ):
        await post(Recorder(tmp_path / "none" / "a.jsonl", server))
    assert server.requests == []


def test_a_new_recorder_creates_no_file_and_its_repr_hides_secrets(path):
    assert "hunter22" not in repr(Recorder(path, secrets=["hunter22"]))
    assert not path.exists()


async def test_closing_closes_the_inner_transport(path):
    server = Answers(200)
    await Recorder(path, server).aclose()
    assert server.closed == 1
    await Recorder(path).aclose()  # never used: there is nothing to close


def test_the_network_can_be_recorded_from_two_event_loops(path, serve):
    body = json.dumps(completion("yes, sk-1234"))
    url = serve(lambda path: (200, body.encode()))
    gateway = Gateway("openai:m", api_key="sk-1234", base_url=f"{url}/v1", transport=Recorder(path))

    async def content():
        async with gateway:
            return (await gateway.chat(QUESTION)).content

    assert [asyncio.run(content()), asyncio.run(content())] == ["yes, sk-1234"] * 2
    recorded = lines(path)
    assert [line["request"]["url"] for line in recorded] == [f"{url}/v1/chat/completions"] * 2
    assert "".join(recorded[0]["response"]["chunks"]) == body.replace("sk-1234", "*******")


@pytest.mark.skipif(sys.platform == "win32", reason="needs the modes of Unix")
async def test_only_the_owner_may_read_a_recording(path):
    before = os.umask(0o022)
    try:
        await post(Recorder(path, Answers(streaming(b"yes"))))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
