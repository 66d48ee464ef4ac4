import gzip
import json
from zlib import Z_SYNC_FLUSH, compress, compressobj

import httpx
import pytest

from stage0_gateway.recording_format import (
    Exchange,
    read_error,
    read_line,
    write_answer,
    write_error,
    write_line,
    write_request,
)

URL = "https://api.test/v1/chat"
GOOD = {
    "request": {"method": "POST", "url": URL, "headers": {}, "body": None},
    "response": {"status": 200, "headers": {}, "chunks": []},
}


def answer(headers, *chunks, broken_by=None):
    return write_answer(httpx.Response(200, headers=headers), [*chunks], broken_by, ())


@pytest.mark.parametrize(
    ("content", "body"),
    [
        (b"", None),
        (b"plain", "plain"),
        (b'"text in JSON"', '"text in JSON"'),
        (b'{"a": [1, null]}', {"a": [1, None]}),
        (b'{"a": NaN}', '{"a": NaN}'),
        (b"[" * 100_000, "[" * 100_000),
        (b"\xff", {"base64": "/w=="}),
        (b'["\\ud83d"]', ["\ud83d"]),
    ],
    ids=["none", "text", "text in JSON", "JSON", "no number", "deep", "bytes", "half a surrogate pair"],
)
def test_any_body_can_be_written_and_is_one_line(content, body):
    request = write_request(httpx.Request("POST", URL, content=content), ())
    assert request["body"] == body
    line = write_line(GOOD | {"request": request})
    assert line.count(b"\n") == 1
    assert read_line(line, 7) == Exchange(7, request, 200, {}, (), None)


def test_of_a_request_only_what_is_harmless_is_written():
    headers = {"content-type": "text/plain", "accept": "*/*", "user-agent": "me", "x-api-key": "sk-1234"}
    request = httpx.Request(
        "PUT", "https://me:pw-1@api.test:81/sk-1234?a=sk-1234&key=k-1&b=#part", headers=headers, content=b"x"
    )
    assert write_request(request, ["sk-1234"]) == {
        "method": "PUT",
        "url": "https://api.test:81/[hidden]?a=[hidden]&key=[hidden]&b=",
        "headers": {"content-type": "text/plain", "accept": "*/*"},
        "body": "x",
    }


def test_headers_that_let_somebody_in_or_say_who_it_was_are_left_out():
    sent = {
        "content-type": "text/plain",
        "retry-after": "7",
        "x-ratelimit-remaining-tokens": "5",
        "set-cookie": "session=1",
        "x-new-token": "1",
        "openai-organization": "org-1",
        "transfer-encoding": "chunked",
    }
    assert answer(sent)["headers"] == dict([*sent.items()][:3])


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("deflate", compress)])
def test_what_is_compressed_is_written_readable(coding, pack):
    packed = pack(b"hello " * 9)
    written = answer({"content-encoding": coding, "x-a": "1"}, packed[:12], b"", packed[12:])
    chunks = written.pop("chunks")
    assert ("".join(chunks), written) == ("hello " * 9, {"status": 200, "headers": {"x-a": "1"}})


def test_what_cannot_be_decoded_breaks_off_there():
    packer = compressobj()
    readable = packer.compress(b"one") + packer.flush(Z_SYNC_FLUSH)
    written = answer({"content-encoding": "deflate"}, readable, b"\xff" * 9, broken_by="abandoned")
    assert (written["chunks"], written["cut"].partition(":")[0]) == (["one"], "DecodingError")


def test_a_coding_in_which_a_secret_could_hide_is_not_written():
    written = answer({"content-encoding": "gzip, odd"}, b"\x00\xff")
    assert (written["chunks"], written["cut"]) == (
        [],
        "DecodingError: a body in gzip, odd is not recorded",
    )


def test_an_answer_is_read_as_it_was_written():
    text, half = "a\u2028b\r\n\x00".encode(), "ü".encode()[:1]
    written = answer({"x-a": "ü".encode(), "x-b": b""}, text, b"", half, broken_by="ReadError: gone")
    exchange = read_line(write_line({"request": GOOD["request"], "response": written}), 1)
    assert (exchange.headers, exchange.chunks) == ({"x-a": "ü", "x-b": ""}, (text, b"", half))
    assert (exchange.status, exchange.broken_by) == (200, "ReadError: gone")


@pytest.mark.parametrize(
    "error", [httpx.ReadTimeout(""), httpx.ConnectError("no: way"), httpx.ProxyError("x")]
)
def test_an_error_is_read_as_it_was_written(error):
    read = read_error(write_error(error, ()))
    assert (type(read), str(read)) == (type(error), str(error))


def test_an_error_of_somebodys_own_is_the_nearest_of_httpx():
    class Lost(httpx.ReadError):
        pass

    assert write_error(Lost("gone"), ()) == "ReadError: gone"


def test_a_secret_in_an_errors_text_is_hidden_and_its_name_stays():
    assert write_error(httpx.ReadError("Error sk-1"), ["Error", "sk-1"]) == "ReadError: [hidden] [hidden]"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("no json", "Expecting value"),
        ("[]", "an exchange must be a JSON object, not list"),
        ("{}", "request must be a JSON object, not NoneType"),
        (json.dumps(GOOD)[:-20], ""),
        (json.dumps(GOOD | {"request": {"url": URL}}), "request needs a 'method'"),
        (json.dumps({"request": GOOD["request"]}), "response must be a JSON object"),
        (json.dumps(GOOD | {"response": {"chunks": []}}), "headers must be a JSON object"),
        (json.dumps(GOOD | {"response": {"status": "200", "headers": {}}}), "status must be a whole number"),
        (json.dumps(GOOD | {"response": GOOD["response"] | {"chunks": "x"}}), "chunks must be a list"),
        (json.dumps(GOOD | {"response": GOOD["response"] | {"chunks": [1]}}), "a chunk must be"),
        (json.dumps(GOOD | {"response": GOOD["response"] | {"chunks": [{"base64": "?"}]}}), "base64"),
        (json.dumps(GOOD | {"response": GOOD["response"] | {"headers": {"a": 1}}}), "headers.a must be text"),
        (json.dumps(GOOD | {"response": GOOD["response"] | {"cut": 1}}), "'1' is no error of httpx"),
        (json.dumps({**GOOD, "error": "Client: x"}), "'Client' is no error of httpx"),
        (json.dumps({**GOOD, "error": "abandoned"}), "'abandoned' is no error of httpx"),
    ],
)
def test_what_is_no_exchange_is_refused_with_the_reason(line, why):
    with pytest.raises(ValueError, match=r".") as caught:
        read_line(line.encode(), 1)
    assert why in str(caught.value)
