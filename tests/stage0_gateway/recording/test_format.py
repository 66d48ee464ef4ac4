import gzip
import json

import httpx
import pytest

from stage0_gateway.recording.format import (
    RecordedExchange,
    read_error,
    read_line,
    write_error,
    write_line,
    write_request,
    write_response,
)
from tests.tables import for_each

URL = "https://api.test/v1/chat"
NEEDED = "an exchange needs a request, and a response or an error"
GOOD = {
    "request": {"method": "POST", "url": URL, "headers": {}, "body": None},
    "response": {"status": 200, "headers": {}, "chunks": []},
}


def answer(headers, *chunks, cut=None):
    return write_response(httpx.Response(200, headers=headers), [*chunks], cut, ())


@for_each(
    "content, body",
    [
        # none
        (b"", ""),
        # text
        (b"plain", "plain"),
        # JSON
        (b'{"a": [1, null]}', {"a": [1, None]}),
        # deep
        (b"[" * 100_000, "[" * 100_000),
        # bytes
        (b"\xff", "\udcff"),
        # half a surrogate pair
        (b'["\\ud83d"]', ["\ud83d"]),
    ],
)
def test_any_body_is_written_as_one_line(content, body):
    request = write_request(httpx.Request("POST", URL, content=content), ())
    assert request["body"] == body
    line = write_line(GOOD | {"request": request})
    assert line.count(b"\n") == 1
    assert read_line(line, 7) == RecordedExchange(7, request, 200, {}, (), None)


def test_only_harmless_parts_of_a_request_are_written():
    headers = {
        "content-type": "text/plain",
        "accept": "*/*",
        "user-agent": "me",
        "x-api-key": "sk-1234",
    }
    request = httpx.Request(
        "PUT",
        "https://me:pw-1@api.test:81/sk-1234?a=sk-1234&b=#part",
        headers=headers,
        content=b"x",
    )
    assert write_request(request, ["sk-1234"]) == {
        "method": "PUT",
        "url": "https://api.test:81/[hidden]?a=[hidden]&b=",
        "body": "x",
    }


def test_headers_with_credentials_or_identities_are_omitted():
    sent = {
        "content-type": "text/plain",
        "retry-after": "7",
        "x-ratelimit-remaining-tokens": "5",
        "set-cookie": "session=1",
        "x-new-token": "1",
        "openai-organization": "org-1",
        "openai-project": "proj-1",
        "transfer-encoding": "chunked",
    }
    assert answer(sent)["headers"] == dict([*sent.items()][:3])


def test_a_compressed_body_is_not_written_because_it_may_contain_a_secret():
    written = answer({"content-encoding": "gzip"}, gzip.compress(b"sk-1234"))
    cut = "DecodingError: a compressed body is not recorded"
    assert written == {
        "status": 200,
        "headers": {"content-encoding": "gzip"},
        "chunks": [],
        "cut": cut,
    }


def test_a_recorded_reply_survives_a_round_trip():
    text, half = "a\u2028b\r\n\x00".encode(), "ü".encode()[:1]
    written = answer({"x-a": "ü".encode(), "x-b": b""}, text, b"", half, cut="ReadError: gone")
    exchange = read_line(write_line({"request": GOOD["request"], "response": written}), 1)
    assert (exchange.headers, exchange.chunks) == ({"x-a": "ü", "x-b": ""}, (text, b"", half))
    assert (exchange.status, exchange.cut) == (200, "ReadError: gone")


@for_each("error", [httpx.ReadTimeout(""), httpx.ConnectError("no: way"), httpx.ProxyError("x")])
def test_a_recorded_error_survives_a_round_trip(error):
    read = read_error(write_error(error), httpx.Request("GET", URL))
    assert (type(read), str(read)) == (type(error), str(error))


def test_an_unknown_error_becomes_a_transport_error():
    read = read_error("Lost: gone", httpx.Request("GET", URL))
    assert (type(read), str(read)) == (httpx.TransportError, "gone")


@for_each(
    "line, why",
    [
        ("no json", "Expecting value"),
        ("[]", NEEDED),
        ("{}", NEEDED),
        (json.dumps(GOOD)[:-20], ""),
        (json.dumps(GOOD | {"request": {"url": URL}}), NEEDED),
        (json.dumps({"request": GOOD["request"]}), NEEDED),
        (json.dumps(GOOD | {"response": {"chunks": []}}), NEEDED),
        (json.dumps(GOOD | {"response": {"status": "200", "headers": {}}}), NEEDED),
        (json.dumps(GOOD | {"response": GOOD["response"] | {"chunks": "x"}}), NEEDED),
        (json.dumps(GOOD | {"response": GOOD["response"] | {"chunks": [1]}}), "A chunk must be"),
    ],
)
def test_an_invalid_line_is_rejected_with_the_reason(line, why):
    with pytest.raises(ValueError, match=r".") as caught:
        read_line(line.encode(), 1)
    assert why in str(caught.value)
