import json
import re

import pytest

from stage0_gateway.messages import Message
from stage0_gateway.offline import broken_answer as answers
from stage0_gateway.response import ChatResponse
from stage0_gateway.serve import anthropic, gemini, openai
from stage0_gateway.serve.answer import Answer, json_answer, reply_answer

REPLY = ChatResponse(Message.assistant("It is sunny in Lima, 两位."), model="m")
ALL = [
    answers.refused(429, "No."),
    answers.html_page,
    answers.hung_up,
    answers.cut_off,
    answers.malformed,
    answers.without_end,
    answers.error_inside,
]


@pytest.fixture(params=["openai", "anthropic", "gemini"])
def form(request):
    return {"openai": openai, "anthropic": anthropic, "gemini": gemini}[request.param]


@pytest.fixture
def whole(form):
    return reply_answer(form, REPLY, stream=False)


@pytest.fixture
def stream(form):
    return reply_answer(form, REPLY, stream=True)


def data(chunk: bytes) -> object:
    lines = [line.removeprefix(b"data: ") for line in chunk.splitlines() if line.startswith(b"data: ")]
    return json.loads(b"\n".join(lines))


def test_a_refusal_has_the_formats_own_shape(form, whole):
    refused = answers.refused(429, "Wait.", Retry_After="1")(form, whole)
    assert (refused.status, refused.headers) == (429, {"Retry-After": "1"})
    assert json.loads(refused.body) == form.encode_error(429, "Wait.")


def test_a_page_is_no_json_and_a_broken_line_is_nothing(form, whole):
    page = answers.html_page(form, whole)
    assert (page.status, page.content_type, page.body[:6]) == (502, "text/html", b"<html>")
    assert answers.hung_up(form, whole) == Answer(None, is_cut=True)


def test_the_line_breaks_after_half_of_the_bytes_wherever_that_is(form, whole, stream):
    for answer in (whole, stream):
        cut = answers.cut_off(form, answer)
        assert cut.body == answer.body[: len(answer.body) // 2]
        assert (cut.is_cut, cut.is_stream, cut.status) == (True, answer.is_stream, 200)


def test_malformed_json_is_in_the_first_event_or_the_body(form, whole, stream):
    broken = answers.malformed(form, stream)
    assert broken.chunks[1:] == stream.chunks[1:]
    for chunk in (broken.chunks[0], b"data: " + answers.malformed(form, whole).body):
        with pytest.raises(ValueError, match=r"line 1 column \d+"):
            data(chunk)


def test_a_stream_without_an_end_is_all_before_the_reason(form, stream):
    left = answers.without_end(form, stream)
    assert 0 < len(left.chunks) < len(stream.chunks)
    assert left.chunks == stream.chunks[: len(left.chunks)]
    assert not re.search(rb'"(finish_reason|stop_reason|finishReason)": ?"|DONE|message_stop', left.body)
    assert left.is_cut is False


def test_a_whole_reply_without_an_end_has_null_there(form, whole):
    plain = json.loads(answers.without_end(form, whole).body)
    reasons = {
        "openai": lambda: plain["choices"][0]["finish_reason"],
        "anthropic": lambda: plain["stop_reason"],
        "gemini": lambda: plain["candidates"][0]["finishReason"],
    }
    assert reasons[form.NAME]() is None


def test_an_error_inside_follows_the_first_half_of_a_stream(form, whole, stream):
    error = form.encode_error(503, "The server is overloaded (a fault on purpose).")
    *before, last = answers.error_inside(form, stream).chunks
    assert tuple(before) == stream.chunks[: len(before)]
    assert 0 < len(before) < len(stream.chunks)
    assert data(last) == error
    assert last.startswith(b"event: error\n" if form.NAME == "anthropic" else b"data: ")
    instead = answers.error_inside(form, whole)
    assert (instead.status, json.loads(instead.body)) == (200, error)


@pytest.mark.parametrize("fault", ALL)
def test_a_refusal_may_be_spoiled_as_well(fault, form):
    refusal = json_answer(400, form.encode_error(400, "No messages."))
    assert isinstance(fault(form, refusal), Answer)
