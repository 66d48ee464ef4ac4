import asyncio

import httpx
import pytest

from stage0_gateway.server.answer import EVENT_STREAM, Answer
from stage0_gateway.server.in_process import as_response
from tests.tables import for_each


async def test_a_whole_answer_has_its_content_type():
    response = as_response(Answer(429, (b"{}",)))
    assert (response.status_code, await response.aread()) == (429, b"{}")
    assert dict(response.headers) == {"content-type": "application/json"}


async def test_a_stream_is_sent_chunk_by_chunk_and_other_tasks_run_in_between():
    response = as_response(Answer(200, (b"a", b"b", b"c"), EVENT_STREAM))
    seen: list[bytes | str] = []

    async def count() -> None:
        for number in range(3):
            seen.append(str(number))
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    async for chunk in response.aiter_raw():
        seen.append(chunk)
    await counting
    assert seen == ["0", b"a", "1", b"b", "2", b"c"]
    assert "content-length" not in response.headers


@for_each("content_type", [EVENT_STREAM, "application/json"])
async def test_a_truncated_answer_raises_an_error_after_its_last_chunk(content_type):
    response = as_response(Answer(200, (b"a", b"b"), content_type, is_cut=True))
    chunks = response.aiter_raw()
    assert [await anext(chunks), await anext(chunks)] == [b"a", b"b"]
    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
        await anext(chunks)
