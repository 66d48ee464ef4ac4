import pytest

from stage0_gateway import ChatResponse, MalformedResponse, RateLimited, StreamInterrupted
from stage0_gateway.wire.reader import ReplyReader
from tests.tables import for_each


class Reader(ReplyReader):
    """A reader that records its input, or raises the given error."""

    def __init__(self, error=None):
        super().__init__("odd")
        self.error, self.fed = error, []

    def feed(self, data):
        self._take("event", data)

    def feed_whole(self, body):
        self._take("whole", body)

    def _take(self, kind, data):
        self.fed.append((kind, data))
        if self.error:
            raise self.error


def test_a_whole_reply_is_read_and_keeps_its_body_and_its_request_id():
    reader = Reader()
    reader.builder.request_id = "r"
    response = reader.decode_whole({"a": 1})
    assert (reader.fed, response.raw, response.request_id) == ([("whole", {"a": 1})], {"a": 1}, "r")


def test_an_event_is_read_as_an_event_and_a_body_as_a_body():
    reader = Reader()
    reader.read_event({"a": 1})
    reader.decode_whole({"b": 2})
    assert reader.fed == [("event", {"a": 1}), ("whole", {"b": 2})]


@for_each(
    "error",
    [
        KeyError("x"),
        IndexError("x"),
        TypeError("x"),
        ValueError("x"),
        AttributeError("x"),
        RecursionError("x"),
    ],
)
def test_any_failure_of_a_reader_is_a_malformed_response_with_the_cause(error):
    with pytest.raises(MalformedResponse) as caught:
        Reader(error).read_event({"b": 1, "a": 2})
    assert str(caught.value) == (
        f"This is not a reply in the odd format ({type(error).__name__}: {error}). "
        "Its fields are ['a', 'b']."
    )
    assert (caught.value.status, caught.value.retryable) == (200, False)


@for_each("data", [[1], "x", None, 5])
def test_input_that_is_not_an_object_is_named_by_its_type(data):
    with pytest.raises(MalformedResponse, match=f"It is a {type(data).__name__}"):
        Reader(TypeError("x")).read_event(data)


def test_the_error_shows_only_a_part_of_long_input():
    body = {f"key{n}": n for n in range(9999)}
    with pytest.raises(MalformedResponse) as caught:
        Reader(ValueError("x" * 9999)).read_event(body)
    assert len(str(caught.value)) < 700


def test_the_error_has_no_cause_that_may_hold_a_key():
    with pytest.raises(MalformedResponse) as caught:
        Reader(ValueError("sk-secret")).read_event({})
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)


@for_each(
    "error",
    [
        # ours
        RateLimited("no"),
        # a bug
        ZeroDivisionError(),
    ],
)
def test_gateway_errors_and_bugs_are_raised_unchanged(error):
    with pytest.raises(type(error)) as caught:
        Reader(error).read_event({})
    assert caught.value is error


def test_a_complete_stream_is_a_reply_and_an_incomplete_one_is_interrupted():
    reader = Reader()
    with pytest.raises(
        StreamInterrupted, match=r"^The stream ended before the reply was complete\.$"
    ):
        reader.end()
    reader.complete = True
    assert reader.end() == ChatResponse(reader.builder.message())
