"""`WireFormatContract`: tests of the promises of `WireFormat` and `ServerFormat`.

A wire format encodes requests and decodes replies; its server format does the reverse. The tests
send requests and replies through both. Recorded traffic of the real server remains necessary: two
modules that share a mistake agree with each other.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stage0_gateway import (
    ChatRequest,
    ChatResponse,
    GatewayError,
    Message,
    ServerFormat,
    StreamInterrupted,
    ToolCall,
    ToolSpec,
    Usage,
    WireFormat,
)

WEATHER = ToolSpec(
    "get_weather",
    "Get the weather in a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
CLOCK = ToolSpec("get_time", "Get the time.")
CALL = ToolCall("call_1", "get_weather", '{"city": "Rome"}')
OTHER_CALL = ToolCall("call_2", "get_time", "{}")
EXCHANGES = (
    (Message.user("How is the weather?"),),
    (
        Message.assistant("I will look.", [CALL, OTHER_CALL]),
        Message.tool("22 degrees", "call_1", name="get_weather"),
        Message.tool("no clock", "call_2", is_error=True, name="get_time"),
    ),
    (Message.assistant("It is warm."),),
    (Message.user("And tomorrow?"),),
)
MESSAGES = tuple(message for exchange in EXCHANGES for message in exchange)

QUESTION = ChatRequest("m", (Message.user("Hello"),), max_tokens=99)  # a format may have a default
CONVERSATION = replace(QUESTION, messages=MESSAGES, tools=(WEATHER, CLOCK))
REQUESTS = {
    "a question": QUESTION,
    "a temperature": replace(QUESTION, temperature=0.5),
    "a system message": replace(
        QUESTION, messages=(Message.system("Be brief."), Message.user("Hello"))
    ),
    "a conversation": CONVERSATION,
    "no tool": replace(CONVERSATION, tool_choice="none"),
    "any tool": replace(CONVERSATION, tool_choice="required"),
    "one tool": replace(CONVERSATION, tool_choice="get_time"),
}

TEXT = Message.assistant('It is warm.\n\n22 °C 👩‍👩‍👧 "quoted" \\ {"a": 1}')
USAGE = Usage(input_tokens=12, output_tokens=34)
REPLIES = {
    "a text": ChatResponse(TEXT, "stop", usage=USAGE, model="m"),
    "a call": ChatResponse(Message.assistant("", [CALL]), "tool_calls", usage=USAGE, model="m"),
    "a text and calls": ChatResponse(
        Message.assistant("I will look.", [CALL, OTHER_CALL]), "tool_calls", usage=USAGE, model="m"
    ),
    "a truncated text": ChatResponse(TEXT, "length", usage=USAGE, model="m"),
    "a refusal": ChatResponse(TEXT, "refusal", usage=USAGE, model="m"),
}

_OTHER_VALUES: list[Any] = [None, 7, "text", [], {}, [None], [[]]]
_ANY_TEXT = st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip)
_ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def content_of(response: ChatResponse) -> dict[str, Any]:
    """Return what every format can represent of a reply. A format may replace call ids."""
    return {
        "text": response.content,
        "calls": [(each.name, json.loads(each.arguments)) for each in response.tool_calls],
        "finish_reason": response.finish_reason,
        "usage": response.usage and (response.usage.input_tokens, response.usage.output_tokens),
        "model": response.model,
    }


def settings_of(request: ChatRequest) -> dict[str, Any]:
    """Return the settings of a request that every format can represent."""
    return {
        "tools": request.tools,
        "tool_choice": request.tool_choice,
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
    }


def parts_of(messages: Iterable[Message]) -> list[tuple[str, ...]]:
    """Return the texts, calls and results of messages. A format may split and join messages."""
    parts: list[tuple[str, ...]] = []
    for message in messages:
        if message.text:
            parts.append((message.role, message.text))
        parts += [("call", call.name, call.arguments) for call in message.tool_calls]
    return parts


def read_stream(wire: WireFormat, events: list[str]) -> ChatResponse:
    """Return the reply of a stream; each event is the text that a server sends."""
    reader = wire.reader()
    for event in events:
        data = "\n".join(line[6:] for line in event.splitlines() if line.startswith("data: "))
        if data and data != "[DONE]":
            reader.read_event(json.loads(data))
    return reader.end()


def variants_of(body: Any) -> Iterator[Any]:
    """Yield a JSON value with each of its parts removed, or replaced by a value of another type."""
    if isinstance(body, dict):
        for name, value in body.items():
            yield {other: body[other] for other in body if other != name}
            yield from ({**body, name: each} for each in _OTHER_VALUES)
            yield from ({**body, name: each} for each in variants_of(value))
    elif isinstance(body, list):
        for index, value in enumerate(body):
            for each in variants_of(value):
                yield [*body[:index], each, *body[index + 1 :]]


class WireFormatContract:
    """Tests of the promises of `WireFormat` and `ServerFormat`.

    A subclass defines the fixtures `wire` and `server`, such as the modules `wire/NAME.py` and
    `server/NAME.py`.
    """

    @pytest.fixture
    def wire(self) -> WireFormat:
        """Return the wire format; a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} needs the fixture wire.")

    @pytest.fixture
    def server(self) -> ServerFormat:
        """Return the format in reverse; a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} needs the fixture server.")

    # ---- requests

    def test_both_directions_of_a_format_have_its_name(
        self, wire: WireFormat, server: ServerFormat
    ) -> None:
        assert wire.NAME == server.NAME

    def test_the_server_recognizes_the_path_of_a_request(
        self, wire: WireFormat, server: ServerFormat
    ) -> None:
        assert server.is_path("/v1" + wire.path("m"))
        assert server.is_path("/v1" + wire.path("m", stream=True))
        assert not server.is_path("/v1/unknown")

    def test_the_key_is_sent_in_the_headers_only(self, wire: WireFormat) -> None:
        assert "the key" in " ".join(wire.headers("the key").values())
        assert "the key" not in " ".join(wire.headers(None).values())
        assert "the key" not in wire.path("m") + wire.path("m", stream=True)

    def test_a_request_is_received_as_it_was_sent(
        self, wire: WireFormat, server: ServerFormat, subtests: pytest.Subtests
    ) -> None:
        for name, request in REQUESTS.items():
            for stream in (False, True):
                with subtests.test(name, stream=stream):
                    body = json.loads(json.dumps(wire.encode(request, stream=stream)))
                    path = "/v1" + wire.path("m", stream=stream)
                    received = server.decode_request(body, path)
                    assert settings_of(received) == settings_of(request)
                    assert parts_of(received.messages) == parts_of(request.messages)

    def test_a_conversation_is_encoded_exchange_by_exchange(self, wire: WireFormat) -> None:
        encoded = [each for exchange in EXCHANGES for each in wire.encode_messages(exchange)]
        assert wire.encode_messages(MESSAGES) == encoded
        assert wire.encode(CONVERSATION)[wire.MESSAGES] == encoded

    @settings(deadline=None, suppress_health_check=list(HealthCheck))
    @given(text=_ANY_TEXT)
    def test_any_text_of_a_message_is_received_unchanged(
        self, wire: WireFormat, server: ServerFormat, text: str
    ) -> None:
        request = ChatRequest("m", (Message.user(text),))
        body = json.loads(json.dumps(wire.encode(request)))
        received = server.decode_request(body, "/v1" + wire.path("m"))
        assert [message.text for message in received.messages] == [text]

    # ---- replies

    def test_a_reply_is_received_as_it_was_sent(
        self, wire: WireFormat, server: ServerFormat, subtests: pytest.Subtests
    ) -> None:
        for name, reply in REPLIES.items():
            with subtests.test(name):
                body = json.loads(json.dumps(server.encode_reply(reply)))
                assert content_of(wire.decode(body)) == content_of(reply)

    def test_a_stream_contains_the_same_reply(
        self, wire: WireFormat, server: ServerFormat, subtests: pytest.Subtests
    ) -> None:
        for name, reply in REPLIES.items():
            for piece in (1, 8, 10_000):
                with subtests.test(name, piece=piece):
                    events = list(server.encode_stream(reply, piece=piece))
                    assert all(event.endswith("\n\n") for event in events)
                    assert content_of(read_stream(wire, events)) == content_of(reply)

    def test_a_stream_that_breaks_is_not_a_reply(
        self, wire: WireFormat, server: ServerFormat
    ) -> None:
        reply = REPLIES["a text and calls"]
        events = list(server.encode_stream(reply, piece=1))
        results = []
        for end in range(len(events) + 1):
            try:
                results.append(content_of(read_stream(wire, events[:end])))
            except StreamInterrupted:
                results.append({})
        complete = [each for each in results if each]
        assert results == [{}] * (len(results) - len(complete)) + complete
        assert {**complete[0], "usage": None} == {**content_of(reply), "usage": None}
        assert complete[-1] == content_of(reply)

    def test_an_error_of_the_server_is_raised_with_its_text(
        self, wire: WireFormat, server: ServerFormat
    ) -> None:
        body = server.encode_error(400, "max_tokens is too large")
        with pytest.raises(GatewayError, match="max_tokens is too large"):
            wire.decode(body)
        with pytest.raises(GatewayError, match="max_tokens is too large"):
            wire.reader().read_event(body)

    def test_an_invalid_reply_raises_no_other_error(
        self, wire: WireFormat, server: ServerFormat
    ) -> None:
        for reply in REPLIES.values():
            for body in variants_of(server.encode_reply(reply)):
                with suppress(GatewayError):
                    wire.decode(body)

    @settings(deadline=None, suppress_health_check=list(HealthCheck))
    @given(body=_ANY_JSON)
    def test_a_body_that_is_no_reply_raises_a_gateway_error(
        self, wire: WireFormat, body: Any
    ) -> None:
        with pytest.raises(GatewayError):
            wire.decode(body)
