from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from stage0_gateway import (
    Gateway,
    GatewayError,
    InvalidRequest,
    MalformedResponse,
    RateLimited,
    ServerFailed,
)
from stage0_gateway.http.receive import retry_after
from tests.stage0_gateway.replies import completion, failure
from tests.stage0_gateway.requests import METHODS, QUESTION, ask, each_method
from tests.stage0_gateway.servers import Answers
from tests.tables import for_each


def answering(status=200, **content):
    """Return a gateway whose server gives this answer."""
    server = Answers(httpx.Response(status, **content))
    return Gateway("openai:m", transport=server, max_retries=0)


@for_each(
    "headers, seconds",
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": ""}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e400"}, None),
        ({"retry-after": "²"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 99 Oct 2015 07:28:00 GMT"}, None),
        ({"retry-after": "Wed, 21 Oct 99999 07:28:00 GMT"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 +9999"}, None),
    ],
)
def test_the_wait_is_read_from_the_headers(headers, seconds):
    assert retry_after(headers) == seconds


def test_a_future_date_is_converted_to_seconds():
    in_an_hour = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    wait = retry_after({"retry-after": in_an_hour})
    assert wait is not None
    assert 3500 < wait <= 3600


@for_each(
    "status, advice, retryable",
    [
        (429, None, True),
        (429, "false", False),
        (500, "false", False),
        (400, None, False),
        (400, "true", True),
        (401, "true", True),
        (429, "perhaps", True),
    ],
)
async def test_a_header_of_the_server_decides_whether_an_error_is_retryable(
    status, advice, retryable
):
    headers = {} if advice is None else {"x-should-retry": advice}
    with pytest.raises(GatewayError) as caught:
        await answering(status, headers=headers, json=failure("no")).chat(QUESTION)
    assert caught.value.retryable is retryable


@each_method
async def test_a_refusal_is_the_same_error_for_a_whole_and_a_streamed_reply(method):
    gateway = answering(429, headers={"retry-after": "7"}, json=failure("slow down"))
    with pytest.raises(RateLimited, match=r"slow down \(HTTP 429\)") as caught:
        await ask(gateway, method)
    assert (caught.value.status, caught.value.retry_after) == (429, 7.0)


@for_each("method", METHODS)
@for_each(
    "body, shown",
    [
        (b"", "The server gave no reason."),
        (b"<html>Bad gateway</html>", "<html>Bad gateway</html>"),
        (b"\xff\xfe", "��"),
        (b'{"detail": "down"}', "down"),
        (b"[" * 100_000, "…"),
    ],
)
async def test_any_body_with_status_502_is_a_failure_of_the_server(method, body, shown):
    gateway = answering(502, content=body)
    with pytest.raises(ServerFailed) as caught:
        await ask(gateway, method)
    assert shown in str(caught.value)


@for_each("body", [b"", b"[]", b'"yes"', b"<html>", b"null", b"[" * 100_000])
async def test_an_answer_that_is_no_json_object_is_malformed(body):
    with pytest.raises(
        MalformedResponse, match=r"api\.openai\.com.*answered, but not with a JSON object"
    ):
        await answering(content=body).chat(QUESTION)


@for_each("status", [201, 204, 302])
async def test_a_success_of_another_kind_is_malformed(status):
    with pytest.raises(MalformedResponse, match=f"HTTP {status}"):
        await answering(status, json=completion()).chat(QUESTION)


@for_each("method", METHODS)
@for_each(
    "model, base_url, sentences",
    [
        (
            "openai:m",
            "http://host.test:1234/",
            "The requested URL was http://host.test:1234/chat/completions. The base URL has no "
            "path; most servers need one, such as http://host.test:1234/v1.",
        ),
        (
            "anthropic:m",
            "http://host.test",
            "The requested URL was http://host.test/messages. The base URL has no path; most "
            "servers need one, such as http://host.test/v1.",
        ),
        (
            "openai:m",
            "http://me:sk-secret@host.test/api/v1?key=sk-secret",
            "The requested URL was http://host.test/api/v1/chat/completions.",
        ),
        (
            "openai:m",
            "http://host.test/sk-secret/v1",
            "The requested URL was http://host.test/[hidden]/v1/chat/completions.",
        ),
        ("groq:m", None, "The requested URL was https://api.groq.com/openai/v1/chat/completions."),
    ],
)
async def test_a_404_names_the_url_without_secrets_and_a_missing_path(
    method, model, base_url, sentences
):
    server = Answers(httpx.Response(404, content=b"Not found."))
    gateway = Gateway(model, base_url=base_url, api_key="sk-secret", transport=server)
    with pytest.raises(InvalidRequest) as caught:
        await ask(gateway, method)
    advice = "Check the model name and the base URL."
    assert str(caught.value) == f"Not found. (HTTP 404) {advice} {sentences}"


@for_each("method, name", [("chat", "g"), ("stream", "streamG")])
async def test_a_404_of_a_gemini_server_suggests_the_version_of_gemini(method, name):
    server = Answers(httpx.Response(404))
    gateway = Gateway("gemini:a/b", base_url="http://host.test", transport=server)
    with pytest.raises(InvalidRequest) as caught:
        await ask(gateway, method)
    assert str(caught.value).endswith(
        f"The requested URL was http://host.test/models/a%2Fb:{name}enerateContent. "
        "The base URL has no path; most servers need one, such as http://host.test/v1beta."
    )


@for_each("status", [301, 307, 405])
async def test_other_statuses_of_a_wrong_base_url_name_the_url(status):
    with pytest.raises(
        GatewayError, match=r"The requested URL was https://api\.openai\.com/v1/chat"
    ):
        await answering(status).chat(QUESTION)


@for_each("status", [400, 401, 429, 500])
async def test_errors_about_the_request_itself_do_not_name_the_url(status):
    with pytest.raises(GatewayError) as caught:
        await answering(status).chat(QUESTION)
    assert "URL" not in str(caught.value)


async def test_the_id_of_the_exchange_is_kept():
    body = {"id": "from the body", **completion()}
    reply = await answering(json=body, headers={"x-request-id": "from the header"}).chat(QUESTION)
    assert (reply.request_id, reply.raw) == ("from the header", body)
    assert (await answering(json=body).chat(QUESTION)).request_id == "from the body"
