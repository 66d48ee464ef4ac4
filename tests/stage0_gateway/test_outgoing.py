import copy
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import (
    ChatRequest,
    DocumentPart,
    ImagePart,
    JsonPart,
    Message,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolSpec,
)
from stage0_gateway.models import resolve
from stage0_gateway.outgoing import outgoing, to_json


def test_a_body_is_compact_json_in_any_script():
    assert to_json({"a": "ü上", "b": 1}) == '{"a":"ü上","b":1}'.encode()


def test_half_of_a_surrogate_pair_is_written_as_json_writes_it():
    assert to_json({"a": "ü\ud83d"}) == b'{"a":"\\u00fc\\ud83d"}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1}, object(), b"bytes"])
def test_what_json_cannot_hold_is_a_value_error(value):
    with pytest.raises(ValueError, match="JSON"):
        to_json({"a": value})


def test_what_holds_itself_is_a_value_error():
    body: dict[str, object] = {}
    body["a"] = body
    with pytest.raises(ValueError, match="Circular"):
        to_json(body)


def test_what_is_nested_too_deeply_is_a_value_error():
    body: dict[str, object] = {}
    for _ in range(100_000):
        body = {"a": body}
    with pytest.raises(ValueError, match="recursion"):
        to_json(body)
    while body:  # taken apart by hand: freeing it in one go would nest as deeply
        body = body["a"]  # type: ignore[assignment]


@pytest.mark.parametrize("model", ["openai:m", "anthropic:m", "gemini:m"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_request_goes_where_its_model_is_in_its_models_format(model, stream):
    target = resolve(model)
    request = ChatRequest("m", (Message.user("hi"),))
    out = outgoing(target, request, stream=stream)
    assert out.url == (target.stream_url if stream else target.url)
    assert json.loads(out.body) == target.encode(request, stream=stream)
    assert ("stream" in json.loads(out.body)) is (stream and model != "gemini:m")


def test_names_a_provider_would_refuse_are_remembered():
    tools = (ToolSpec("weather.get", ""), ToolSpec("plain", ""))
    out = outgoing(resolve("openai:m"), ChatRequest("m", (), tools), stream=False)
    (sent,) = out.names
    assert out.names == {sent: "weather.get"}
    assert sent.startswith("weather_get_")


def test_a_request_shows_neither_the_query_nor_the_body():
    target = resolve("openai:m", "sk-secret", "https://u:sk-secret@host.test/v1?key=sk-secret")
    shown = repr(outgoing(target, ChatRequest("m", (Message.user("hi"),)), stream=True))
    assert "sk-secret" not in shown
    assert "body" not in shown


# ---- what is remembered of a conversation ---------------------------------------------------------------

TARGETS = [resolve(model) for model in ("openai:m", "anthropic:m", "gemini:m", "mistral:m")]
OWN = {
    "openai": {"field": "thinking", "extra_content": {"g": 1}},
    "anthropic": {"signature": "s", "cache_control": {"type": "ephemeral"}},
    "gemini": {"thoughtSignature": "s", "functionCall": {"id": "own"}, "at": 0},
}
ODD = ["", " ", "text", "ü上🙂", '"\\\n', "half \ud83d", float("nan"), {1}, [1, None, {"a": True}], "e30="]

texts = st.sampled_from([each for each in ODD if isinstance(each, str)])
BAD = {wire: {"number": float("inf")} for wire in OWN}
data = st.sampled_from([None, None, OWN, OWN, BAD])
contents = texts | st.lists(
    st.builds(TextPart, texts, provider_data=data)
    | st.builds(JsonPart, st.sampled_from(ODD))
    | st.builds(ThinkingPart, texts, data)
    | st.builds(ImagePart, texts, url=st.none() | texts, provider_data=data)
    | st.builds(DocumentPart, texts, st.sampled_from(["application/pdf", "text/plain"]), provider_data=data)
    | st.builds(ProviderPart, st.sampled_from(["openai", "anthropic", "gemini"]), st.just({"type": "own"})),
    max_size=2,
)
ids = st.sampled_from("abc")
calls = st.lists(
    st.builds(ToolCall, ids, st.sampled_from(["f", "a.b"]), st.sampled_from(['{"x": 1}', "no"]), data),
    max_size=2,
)
messages = st.one_of(
    st.builds(Message.system, contents),
    st.builds(Message.user, contents),
    st.builds(Message.assistant, contents, calls),
    st.builds(Message.assistant, texts, calls),
    st.builds(Message.tool, contents, ids, is_error=st.booleans(), name=st.none() | st.just("f")),
    st.builds(Message.tool, texts, ids),
)
options = st.sampled_from(
    [
        {},
        {"n": 2, "a": {"b": 1}},
        {"messages": [], "contents": []},
        {"system": "s"},
        {"tools": [{"type": "own"}]},
        {1: 2},
        {"a": float("nan")},
    ]
)

SPECS = [
    ToolSpec("f", "Find.", {"type": "object", "properties": {"x": {"type": "integer"}}}),
    ToolSpec("a.b", "Ålso \N{SNOWMAN}."),
    ToolSpec("half", "Half of a pair: \ud83d"),
    ToolSpec("no JSON", "", {"x": float("nan")}),
]
TOLD = [(), *[(spec,) for spec in SPECS], tuple(SPECS[:2]), tuple(SPECS)]
tools = st.lists(st.sampled_from(TOLD), min_size=3, max_size=3)


def sent(target, request, stream):
    """The body, or why there is none."""
    try:
        return outgoing(target, request, stream=stream).body
    except (ValueError, TypeError) as error:
        return repr(error)


def in_one_go(target, request, stream):
    """The same without anything remembered."""
    try:
        return to_json(target.encode(copy.deepcopy(request), stream=stream))
    except (ValueError, TypeError) as error:
        return repr(error)


@given(
    st.lists(messages, min_size=1, max_size=8),
    st.lists(
        st.tuples(st.lists(st.integers(0, 7), max_size=10), st.booleans(), options), min_size=1, max_size=5
    ),
    tools,
)
def test_whatever_was_sent_before_the_bytes_are_the_same(pool, requests, told):
    for at, (numbers, stream, more) in enumerate(requests):
        said = tuple(pool[number % len(pool)] for number in numbers)
        request = ChatRequest("m", said, told[at % len(told)], max_tokens=5, provider_options=more)
        for target in TARGETS * 2:
            assert sent(target, request, stream) == in_one_go(target, request, stream)


@given(st.lists(messages, min_size=2, max_size=12))
def test_a_conversation_that_grows_or_loses_its_beginning_is_sent_as_it_is(said):
    spans = [(0, end) for end in range(1, len(said) + 1)] + [(begin, len(said)) for begin in range(len(said))]
    for target in TARGETS:
        for begin, end in spans:
            request = ChatRequest("m", tuple(said[begin:end]))
            assert sent(target, request, False) == in_one_go(target, request, False)


def loop(turns):
    """A conversation of calls and their results."""
    said = [Message.system("s"), Message.user("u")]
    for number in range(turns):
        call = ToolCall(f"c{number}", "f", json.dumps({"n": number}))
        said += [Message.assistant("", [call]), Message.tool(f"r{number}", call.id)]
    return said


each_target = pytest.mark.parametrize("target", TARGETS[:3], ids=lambda target: target.name)


@each_target
def test_a_changed_copy_of_a_message_is_sent_changed(target):
    said = loop(3)
    for _ in range(2):
        sent(target, ChatRequest("m", tuple(said)), False)
    said[3] = replace(said[3], content="another result", is_error=True)
    request = ChatRequest("m", tuple(said))
    assert b"another result" in sent(target, request, False)
    assert sent(target, request, False) == in_one_go(target, request, False)


def telling(wire, method):
    """The same format, and what this method of it is asked to write."""
    asked = []

    class Wire:
        def __getattr__(self, name):
            found = getattr(wire, name)
            return found if name != method else lambda given: (asked.append(given), found(given))[1]

    return Wire(), asked


@each_target
def test_what_was_sent_is_not_written_again(target):
    wire, asked = telling(target.wire, "spoken")
    said = loop(10)
    for end in (-6, -4):
        sent(target, ChatRequest("m", tuple(said[:end])), False)
    sent(replace(target, wire=wire), ChatRequest("m", tuple(said[:-2])), False)
    assert [message for turn in asked for message in turn] == said[-4:-2]


@each_target
@pytest.mark.parametrize("own", [None, {"tools": [{"type": "own"}]}, {"messages": [], "contents": []}])
def test_tools_are_told_as_in_one_go(target, own):
    for turns in range(4):
        for specs in TOLD:
            for end in (2, 4):
                request = ChatRequest("m", tuple(loop(turns)[:end]), specs, provider_options=own)
                assert sent(target, request, False) == in_one_go(target, request, False)


@each_target
def test_tools_that_were_told_are_not_written_again(target):
    wire, asked = telling(target.wire, "described")
    target, said = replace(target, wire=wire), loop(3)
    few, many = tuple(SPECS[:1]), tuple(SPECS[:2])
    for specs in (few, few, many, few, many):
        for end in (2, 4):
            request = ChatRequest("m", tuple(said[:end]), specs)
            assert b'"Find."' in sent(target, request, False)
    assert asked == [few, many]


@each_target
def test_who_changes_an_encoded_body_changes_nothing_that_is_sent(target):
    request = ChatRequest("m", tuple(loop(2)))
    sent(target, request, False)
    before = sent(target, request, False)
    body = target.encode(request)
    for message in body[target.wire.SPOKEN]:
        message.clear()
    assert sent(target, request, False) == before == in_one_go(target, request, False)


@each_target
def test_a_result_that_stands_apart_from_its_call_finds_it(target):
    said = loop(2)
    said.insert(3, Message.user("in between"))
    request = ChatRequest("m", tuple(said))
    for _ in range(3):
        assert sent(target, request, False) == in_one_go(target, request, False)
