import copy
import json
from contextlib import suppress
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
from stage0_gateway.http.encode import encode_fields, encode_request, to_json
from stage0_gateway.http.endpoint import resolve
from tests.tables import for_each


def test_a_body_is_compact_json_in_utf8():
    assert to_json({"a": "ü上", "b": 1}) == '{"a":"ü上","b":1}'.encode()


def test_half_a_surrogate_pair_becomes_a_replacement_character():
    assert to_json({"\ud83d": "ü\ude00"}) == '{"\ufffd":"ü\ufffd"}'.encode()


def test_two_halves_of_a_surrogate_pair_become_their_character():
    assert to_json({"a": "\ud83d\ude00\ude00"}) == '{"a":"\N{GRINNING FACE}\ufffd"}'.encode()


HALF = "a\ud83d"
HALF_PARTS = (TextPart(HALF), JsonPart({HALF: HALF}), DocumentPart("AAAA", name=HALF))


@for_each("model", ["openai:m", "openai-responses:m", "mistral:m", "anthropic:m", "gemini:m"])
@for_each(
    "arguments", [json.dumps({HALF: HALF}), json.dumps({HALF: HALF}, ensure_ascii=False), HALF]
)
def test_no_request_contains_half_a_surrogate_pair(model, arguments):
    call = ToolCall(HALF, HALF, arguments)
    schema = {"type": "object", "description": HALF, "properties": {HALF: {"const": HALF}}}
    request = ChatRequest(
        "m",
        (
            Message.system(HALF),
            Message.user(HALF_PARTS),
            Message.assistant((TextPart(HALF),), [call]),
            Message.tool(HALF_PARTS, call.id, name=HALF),
            Message.tool(HALF, call.id, is_error=True),
        ),
        (ToolSpec(HALF, HALF, schema),),
        response_schema=schema,
        stop=() if model.startswith("openai-responses") else (HALF,),
        cache_key=HALF,
        provider_options={"user": HALF},
    )
    body = encode_request(resolve(model), request, stream=False).body.decode()
    texts = [body]
    for text in texts:  # also in JSON inside of texts
        assert not any("\ud800" <= character <= "\udfff" for character in text)
        with suppress(ValueError):
            texts += strings(json.loads(text))


def strings(value):
    """Return all texts in a JSON value."""
    if isinstance(value, dict):
        return [text for pair in value.items() for each in pair for text in strings(each)]
    if isinstance(value, list):
        return [text for each in value for text in strings(each)]
    return [value] if isinstance(value, str) else []


@for_each("value", [float("nan"), float("inf"), {1}, object(), b"bytes"])
def test_values_that_json_cannot_represent_raise_a_value_error(value):
    with pytest.raises(ValueError, match="JSON"):
        to_json({"a": value})


def test_a_circular_value_raises_a_value_error():
    body: dict[str, object] = {}
    body["a"] = body
    with pytest.raises(ValueError, match="Circular"):
        to_json(body)


def test_a_value_that_is_nested_too_deeply_raises_a_value_error():
    body: dict[str, object] = {}
    for _ in range(100_000):
        body = {"a": body}
    with pytest.raises(ValueError, match="recursion"):
        to_json(body)
    while body:  # freed step by step, because freeing it at once would recurse as deeply
        body = body["a"]  # type: ignore[assignment]


@for_each("model", ["openai:m", "anthropic:m", "gemini:m", "openai-responses:m"])
@for_each("stream", [False, True])
def test_a_request_has_the_url_and_the_format_of_its_model(model, stream):
    target = resolve(model)
    request = ChatRequest("m", (Message.user("hi"),))
    out = encode_request(target, request, stream=stream)
    assert out.url == (target.stream_url if stream else target.url)
    assert json.loads(out.body) == encode_fields(target, request, stream=stream)
    assert ("stream" in json.loads(out.body)) is (stream and model != "gemini:m")


def test_the_original_names_of_renamed_tools_are_kept():
    tools = (ToolSpec("weather.get", ""), ToolSpec("plain", ""))
    out = encode_request(resolve("openai:m"), ChatRequest("m", (), tools), stream=False)
    (sent,) = out.names
    assert out.names == {sent: "weather.get"}
    assert sent.startswith("weather_get_")


def test_the_repr_of_a_request_hides_the_query_and_the_body():
    target = resolve("openai:m", "sk-secret", "https://u:sk-secret@host.test/v1?key=sk-secret")
    shown = repr(encode_request(target, ChatRequest("m", (Message.user("hi"),)), stream=True))
    assert "sk-secret" not in shown
    assert "body" not in shown


# ---- cached encodings

TARGETS = [
    resolve(model)
    for model in ("openai:m", "anthropic:m", "gemini:m", "openai-responses:m", "mistral:m")
]
OWN = {
    "openai": {"field": "thinking", "extra_content": {"g": 1}},
    "anthropic": {"signature": "s", "cache_control": {"type": "ephemeral"}},
    "gemini": {"thoughtSignature": "s", "functionCall": {"id": "own"}, "at": 0},
    "openai-responses": {"encrypted_content": "s", "at": 0},
}
UNUSUAL = [
    "",
    " ",
    "text",
    "ü上🙂",
    '"\\\n',
    "half \ud83d",
    float("nan"),
    {1},
    [1, None, {"a": True}],
    "e30=",
]

texts = st.sampled_from([each for each in UNUSUAL if isinstance(each, str)])
BAD = {wire: {"number": float("inf")} for wire in OWN}
data = st.sampled_from([None, None, OWN, OWN, BAD])
contents = texts | st.lists(
    st.builds(TextPart, texts, provider_data=data)
    | st.builds(JsonPart, st.sampled_from(UNUSUAL))
    | st.builds(ThinkingPart, texts, data)
    | st.builds(ImagePart, texts, url=st.none() | texts, provider_data=data)
    | st.builds(
        DocumentPart, texts, st.sampled_from(["application/pdf", "text/plain"]), provider_data=data
    )
    | st.builds(
        ProviderPart,
        st.sampled_from(["openai", "anthropic", "gemini", "openai-responses"]),
        st.just({"type": "own"}),
    ),
    max_size=2,
)
ids = st.sampled_from("abc")
calls = st.lists(
    st.builds(
        ToolCall, ids, st.sampled_from(["f", "a.b"]), st.sampled_from(['{"x": 1}', "no"]), data
    ),
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
        {"messages": [], "contents": [], "input": []},
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
TOOL_SETS = [(), *[(spec,) for spec in SPECS], tuple(SPECS[:2]), tuple(SPECS)]
tools = st.lists(st.sampled_from(TOOL_SETS), min_size=3, max_size=3)


def normalized(body):
    """Return the JSON of a body with sorted fields; it distinguishes true from 1."""
    return json.dumps(json.loads(body), sort_keys=True)


def sent(target, request, stream):
    """Return the normalized body, or that there is none: a request may have several errors."""
    try:
        return normalized(encode_request(target, request, stream=stream).body)
    except (ValueError, TypeError):
        return "an error"


def without_cache(target, request, stream):
    """Return the same from copies without a cached encoding."""
    try:
        return normalized(to_json(encode_fields(target, copy.deepcopy(request), stream=stream)))
    except (ValueError, TypeError):
        return "an error"


@given(
    st.lists(messages, min_size=1, max_size=8),
    st.lists(
        st.tuples(st.lists(st.integers(0, 7), max_size=10), st.booleans(), options, st.booleans()),
        min_size=1,
        max_size=5,
    ),
    tools,
)
def test_a_body_does_not_depend_on_earlier_requests(pool, requests, tool_sets):
    for at, (numbers, stream, more, cache_prompt) in enumerate(requests):
        messages = tuple(pool[number % len(pool)] for number in numbers)
        request = ChatRequest(
            "m",
            messages,
            tool_sets[at % len(tool_sets)],
            max_tokens=5,
            cache_prompt=cache_prompt,
            provider_options=more,
        )
        for target in TARGETS * 2:
            assert sent(target, request, stream) == without_cache(target, request, stream)


@given(st.lists(messages, min_size=2, max_size=6), st.booleans())
def test_a_growing_or_trimmed_conversation_is_encoded_completely(messages, cache_prompt):
    spans = [(0, end) for end in range(1, len(messages) + 1)] + [
        (begin, len(messages)) for begin in range(len(messages))
    ]
    for target in TARGETS:
        for begin, end in spans:
            request = ChatRequest("m", tuple(messages[begin:end]), cache_prompt=cache_prompt)
            assert sent(target, request, False) == without_cache(target, request, False)


def loop(turns):
    """Return a conversation of calls and their results."""
    messages = [Message.system("s"), Message.user("u")]
    for number in range(turns):
        call = ToolCall(f"c{number}", "f", json.dumps({"n": number}))
        messages += [Message.assistant("", [call]), Message.tool(f"r{number}", call.id)]
    return messages


each_target = for_each("target", TARGETS[:4])


@each_target
def test_a_changed_copy_of_a_message_is_encoded_again(target):
    messages = loop(3)
    for _ in range(2):
        sent(target, ChatRequest("m", tuple(messages)), False)
    messages[3] = replace(messages[3], content="another result", is_error=True)
    request = ChatRequest("m", tuple(messages))
    assert "another result" in sent(target, request, False)
    assert sent(target, request, False) == without_cache(target, request, False)


def recording_wire(wire, method):
    """Return the same format, and a list of the arguments of this method."""
    asked = []

    class Wire:
        def __getattr__(self, name):
            found = getattr(wire, name)
            if name != method:
                return found
            return lambda given, **options: (asked.append(given), found(given, **options))[1]

    return Wire(), asked


@each_target
def test_only_new_exchanges_are_encoded(target):
    wire, encoded = recording_wire(target.wire, "encode_messages")
    target, messages = replace(target, wire=wire), loop(10)
    sent(target, ChatRequest("m", tuple(messages[:-4])), False)
    encoded.clear()
    for begin, end in ((0, -4), (0, -2), (0, -2), (4, -2)):
        sent(target, ChatRequest("m", tuple(messages[begin:end])), False)
    assert encoded == [messages[-4:-2]]


def test_only_the_end_of_a_prompt_with_cache_marks_is_encoded_again():
    target, messages = resolve("anthropic:m"), loop(10)
    wire, encoded = recording_wire(target.wire, "encode_messages")
    wire_of_rest, rests = recording_wire(wire, "encode")
    target = replace(target, wire=wire_of_rest)
    for end in (-4, -2):
        encoded.clear()
        request = ChatRequest("m", tuple(messages[:end]), cache_prompt=True)
        assert sent(target, request, False) == without_cache(resolve("anthropic:m"), request, False)
    last, before = messages[-4:-2], messages[-6:-4]
    assert encoded == [last, before]
    assert rests[-1].messages == (messages[0], *last)


@each_target
@for_each("cache_prompt", [False, True])
def test_an_invalid_value_raises_the_same_error_in_each_request(target, cache_prompt):
    bad_message = Message.user((TextPart("a", provider_data=BAD),))
    bad_tool = ToolSpec("f", "", {"x": {1}})
    for messages, specs, text in [
        ([*loop(1), bad_message], (), "Out of range float values are not JSON compliant"),
        ([bad_message, *loop(1)], (), "Out of range float values are not JSON compliant"),
        (loop(1), (bad_tool,), "The request contains a value that JSON cannot represent: Object"),
    ]:
        request = ChatRequest("m", tuple(messages), specs, cache_prompt=cache_prompt)
        for _ in range(2):
            with pytest.raises(ValueError, match=text):
                encode_request(target, request, stream=False)


@each_target
def test_an_exchange_with_another_result_is_encoded_again(target):
    def result(value):
        return Message.tool((JsonPart(value),), "c0", name="f")

    messages = loop(1)[:-1]
    bodies = [
        sent(target, ChatRequest("m", (*messages, result(value))), False) for value in (True, 1, 1)
    ]
    assert ("true" in bodies[0], "true" in bodies[1]) == (True, False)
    assert bodies[1] == bodies[2]
    more = (*messages, result(1), Message.tool("more", "c0", name="f"))
    assert sent(target, ChatRequest("m", more), False) == without_cache(
        target, ChatRequest("m", more), False
    )


@each_target
@for_each(
    "own",
    [None, {"tools": [{"type": "own"}]}, {"messages": [], "contents": [], "input": []}],
)
def test_cached_tools_are_combined_with_any_conversation(target, own):
    for specs in TOOL_SETS * 2:
        for end in (2, 4):
            request = ChatRequest("m", tuple(loop(1)[:end]), specs, provider_options=own)
            assert sent(target, request, False) == without_cache(target, request, False)


@each_target
def test_the_same_tools_are_encoded_once(target):
    wire, encoded = recording_wire(target.wire, "encode_tools")
    target, messages = replace(target, wire=wire), loop(3)
    # Encodings are stored in the specs, and other tests have encoded `SPECS`.
    specs = [replace(each) for each in SPECS[:2]]
    few, many = tuple(specs[:1]), tuple(specs)
    for specs in (few, tuple(few), many, many):
        for end in (2, 4):
            request = ChatRequest("m", tuple(messages[:end]), specs)
            assert "Find." in sent(target, request, False)
    assert encoded == [[*few], [*many]]


@each_target
def test_changes_to_an_encoded_body_do_not_affect_later_requests(target):
    request = ChatRequest("m", tuple(loop(2)))
    sent(target, request, False)
    before = sent(target, request, False)
    body = encode_fields(target, request, stream=False)
    for message in body[target.wire.MESSAGES]:
        message.clear()
    assert sent(target, request, False) == before == without_cache(target, request, False)


@each_target
def test_a_result_of_an_earlier_exchange_is_sent_with_the_name_of_its_call(target):
    messages = loop(2)
    messages.insert(3, Message.user("in between"))
    request = ChatRequest("m", tuple(messages))
    for _ in range(3):
        assert sent(target, request, False) == without_cache(target, request, False)
