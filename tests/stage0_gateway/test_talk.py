"""HTTP/1.1 over one line: the line is played here, the words are h11's."""

import httpcore
import httpx
import pytest

from stage0_gateway.talk import Talk

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Line:
    """Notes what is written, and says what it is told to; then it is at its end."""

    def __init__(self, *says):
        self.says, self.written, self.closed, self.is_readable = list(says), [], False, False

    async def read(self, max_bytes, within=None):
        if self.says and isinstance(self.says[0], Exception):
            raise self.says.pop(0)
        return self.says.pop(0) if self.says else b""

    async def write(self, buffer, within=None):
        if self.written and isinstance(self.written[-1], Exception):
            raise self.written[-1]
        self.written.append(buffer)

    async def aclose(self):
        self.closed = True

    def get_extra_info(self, info):
        return self.is_readable


def post(body=b"{}"):
    return httpx.Request("POST", "http://host/v1?a=b", content=body, headers={"X-Key": "k"})


async def test_a_request_is_written_as_head_and_body_and_its_answer_read():
    line = Line(OK[:10], OK[10:])
    response = await Talk(line, 5.0).ask(post())
    assert (response.status_code, await response.aread()) == (200, b"hi")
    head, *body = line.written
    assert head.startswith(b"POST /v1?a=b HTTP/1.1\r\nHost: host\r\n")
    assert b"".join(body) == b"{}"


async def test_after_an_answer_that_was_read_to_its_end_another_request_may_follow():
    line = Line(OK, OK)
    talk = Talk(line, 5.0)
    for _ in range(2):
        response = await talk.ask(post())
        assert not talk.may_go_on  # the answer is not read yet
        await response.aread()
        await response.aclose()
        assert talk.may_go_on
    line.is_readable = True  # nobody asked, so it is the end
    assert not talk.may_go_on


async def test_a_line_that_was_idle_for_too_long_is_not_used_again():
    talk = Talk(Line(OK), -1.0)
    await (await talk.ask(post())).aread()
    assert not talk.may_go_on


async def test_an_answer_that_is_closed_before_its_end_closes_the_line():
    line = Line(OK[:-1])
    talk = Talk(line, 5.0)
    await (await talk.ask(post())).aclose()
    assert (line.closed, talk.may_go_on) == (True, False)


async def test_what_a_server_says_on_the_way_is_passed_over():
    line = Line(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + OK)
    response = await Talk(line, 5.0).ask(post())
    assert (response.status_code, await response.aread()) == (200, b"hi")


async def test_an_early_answer_to_a_body_that_could_not_be_written_is_read():
    line = Line(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
    line.written.append(httpcore.WriteError("broken"))
    assert (await Talk(line, 5.0).ask(post())).status_code == 413


@pytest.mark.parametrize(
    ("says", "error", "text"),
    [
        ((), httpcore.RemoteProtocolError, "Server disconnected without sending a response."),
        ((b"SSH-2.0-x\r\n\r\n",), httpcore.RemoteProtocolError, "illegal status line"),
        ((httpcore.ReadTimeout("slow"),), httpcore.ReadTimeout, "slow"),
    ],
)
async def test_a_server_that_says_nothing_or_something_else_is_an_error_and_the_line_is_closed(
    says, error, text
):
    line = Line(*says)
    with pytest.raises(error, match=text):
        await Talk(line, 5.0).ask(post())
    assert line.closed


async def test_a_body_that_breaks_off_is_an_error_of_httpx():
    line = Line(OK[:-1])
    response = await Talk(line, 5.0).ask(post())
    with pytest.raises(httpx.RemoteProtocolError, match="peer closed connection"):
        await response.aread()
    assert line.closed


async def test_a_request_that_cannot_be_written_is_refused_before_anything_is_sent():
    line = Line()
    request = post()
    request.headers["X-Bad"] = "a\r\nb"
    with pytest.raises(httpcore.LocalProtocolError, match="Illegal header value"):
        await Talk(line, 5.0).ask(request)
    assert line.written == []


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def pieces_of(*says):
    response = await Talk(Line(*says), 5.0).ask(post())
    got = []
    try:
        async for piece in response.stream:
            got.append(piece)
    except httpx.RemoteProtocolError as error:
        got.append(type(error))
    return got


async def test_chunks_that_came_together_are_one_piece():
    assert await pieces_of(CHUNKED, b"2\r\nhi\r\n3\r\nyou\r\n1\r\n", b"!\r\n0\r\n\r\n") == [b"hiyou", b"!"]


async def test_what_came_before_the_body_broke_is_given_first():
    assert await pieces_of(CHUNKED, b"2\r\nhi\r\nno number\r\n") == [b"hi", httpx.RemoteProtocolError]
    assert await pieces_of(CHUNKED, b"2\r\nhi\r\n3\r\ny") == [b"hiy", httpx.RemoteProtocolError]
