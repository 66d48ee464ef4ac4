import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.messages import Message, as_content
from stage0_gateway.parts import (
    DocumentPart,
    ImagePart,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.server import gemini
from stage0_gateway.server.gemini import decode_request
from stage0_gateway.server.routing import wants_stream
from stage0_gateway.wire import gemini as wire

PATH = "/v1beta/models/gemini-x:generateContent"
NAMES = (
    "contents role parts text systemInstruction tools functionDeclarations name args functionCall "
    "functionResponse function_response response inlineData file_data data toolConfig "
    "functionCallingConfig mode generationConfig parameters type thought id responseSchema "
    "system_instruction function_declarations generation_config nullable enum any_of properties items"
)
FIELDS = st.sampled_from(NAMES.split())
LIKELY = st.recursive(
    st.none()
    | st.integers()
    | st.sampled_from(["user", "model", "ANY", "OBJECT", ""])
    | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=30,
)


def own(**fields):
    return {"gemini": fields} if fields else None


# ---- requests that this format can represent without loss
# ----------------------------------------------

TEXT = st.text(max_size=30)
NOT_EMPTY = st.text(min_size=1, max_size=30)
COUNT = st.integers(0, 10**6)
OBJECT = st.dictionaries(
    NOT_EMPTY, st.integers() | TEXT | st.booleans() | st.lists(TEXT, max_size=2), max_size=3
)
NAME = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,10}", fullmatch=True).filter(
    lambda name: name not in ("auto", "none", "required")
)
SIGNED = NOT_EMPTY.map(lambda text: own(thoughtSignature=text))
PLAIN_TEXT = st.builds(TextPart, NOT_EMPTY)
SIGNED_TEXT = st.builds(TextPart, TEXT, provider_data=SIGNED)
THOUGHT = st.builds(ThinkingPart, TEXT, st.just(own(thought=True)))
SIGNED_THOUGHT = st.builds(
    ThinkingPart, TEXT, NOT_EMPTY.map(lambda text: own(thought=True, thoughtSignature=text))
)
OTHER = st.builds(
    ProviderPart, st.just("gemini"), TEXT.map(lambda text: {"executableCode": {"code": text}})
)
# A file has no name here, and its type decides whether it is an image.
MEDIA = st.one_of(
    st.builds(
        ImagePart,
        TEXT,
        st.sampled_from(["image/png", "image/webp"]),
        provider_data=st.none() | SIGNED,
    ),
    st.builds(ImagePart, url=NOT_EMPTY),
    st.builds(DocumentPart, TEXT, st.sampled_from(["application/pdf", "video/mp4"])),
    st.builds(DocumentPart, url=NOT_EMPTY, provider_data=st.just(own(videoMetadata={"fps": 1}))),
    OTHER,
)


def assistant(items):
    """Return an assistant message as a session stores it: parts, then calls; calls without an id
    are numbered."""
    parts = [item for item in items if not isinstance(item, ToolCall)]
    calls = []
    for number, call in enumerate(item for item in items if isinstance(item, ToolCall)):
        data = dict((call.provider_data or {}).get("gemini", {}))
        data |= {"functionCall": {"id": call.id}} if call.id else {}
        calls.append(replace(call, id=call.id or f"call_{number}", provider_data=own(**data)))
    return Message.assistant(as_content(parts), calls)


CALL = st.builds(
    ToolCall,
    st.just("") | st.uuids().map(str),
    NAME,
    OBJECT.map(lambda given: json.dumps(given, ensure_ascii=False)),
    st.none() | SIGNED,
)
ITEM = st.one_of(PLAIN_TEXT, SIGNED_TEXT, THOUGHT, SIGNED_THOUGHT, OTHER, CALL)
PARTS = st.lists(PLAIN_TEXT | SIGNED_TEXT | MEDIA, min_size=1, max_size=4).map(as_content)


@st.composite
def turns(draw):
    """Generate a user message, or an assistant message with a result for each of its calls."""
    if draw(st.booleans()):
        return [Message.user(draw(PARTS))]
    message = assistant(draw(st.lists(ITEM, min_size=1, max_size=5)))
    results = [(call, draw(TEXT), draw(st.booleans())) for call in message.tool_calls]
    return [
        message,
        *(Message.tool(text, c.id, is_error=failed, name=c.name) for c, text, failed in results),
    ]


REQUEST = st.builds(
    ChatRequest,
    model=NOT_EMPTY,
    messages=st.builds(
        lambda system, rest: (*system, *(message for turn in rest for message in turn)),
        st.lists(st.builds(Message.system, PARTS), max_size=1),
        st.lists(turns(), max_size=4),
    ),
    tools=st.lists(st.builds(ToolSpec, NAME, TEXT, OBJECT), max_size=2).map(tuple),
    tool_choice=st.none() | st.sampled_from(["auto", "none", "required"]) | NAME,
    temperature=st.none() | st.floats(0, 2),
    max_tokens=st.none() | st.integers(1),
    response_schema=st.none() | OBJECT,
    stop=st.lists(TEXT, max_size=2).map(tuple),
    provider_options=st.none()
    | st.dictionaries(
        st.sampled_from(["safetySettings", "cachedContent"]), OBJECT | NOT_EMPTY, min_size=1
    )
    | st.just({"generationConfig": {"topK": 4}, "toolConfig": {"retrievalConfig": {}}}),
)


# ---- the tests
# ------------------------------------------------------------------------------------------


@given(REQUEST, st.booleans())
def test_an_encoded_request_is_decoded_to_the_same_request(without_provider_data, request, stream):
    path, body = wire.path(request.model, stream=stream), wire.encode(request, stream=stream)
    assert without_provider_data(
        decode_request(json.loads(json.dumps(body)), path)
    ) == without_provider_data(request)
    assert (gemini.is_path(path), wants_stream(path, body)) == (True, stream)


def test_recorded_requests_are_decoded_and_survive_a_second_round_trip(recorded_requests):
    for path, body in recorded_requests("gemini"):
        assert gemini.is_path(path)
        once = wire.encode(decode_request(body, path))
        assert wire.encode(decode_request(once, path)) == once


def test_an_object_instead_of_a_list_with_one_element_is_accepted():
    schema = {"type": "object"}
    body = {
        "systemInstruction": {"parts": {"text": "s"}},
        "contents": {
            "parts": [
                {"inlineData": {"mimeType": "image/png", "data": "QQ=="}},
                {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://x"}},
                {"fileData": {"fileUri": "https://youtu.be/x"}},
            ]
        },
        "tools": {"functionDeclarations": {"name": "f", "parameters": schema}},
    }
    read = decode_request(body, PATH)
    assert read.messages == (
        Message.system("s"),
        Message.user(
            (
                ImagePart("QQ=="),
                DocumentPart(media_type="video/mp4", url="gs://x"),
                ProviderPart("gemini", {"fileData": {"fileUri": "https://youtu.be/x"}}),
            )
        ),
    )
    assert (read.model, read.tools) == ("gemini-x", (ToolSpec("f", "", schema),))


def test_results_are_matched_to_calls_by_id_and_then_by_name_in_order():
    calls = [
        {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "s"},
        {"functionCall": {"name": "g", "id": "other"}},
        {"functionCall": {"name": "g", "id": "given"}},
        {"functionCall": {"name": "f"}},
    ]
    picture = {"inlineData": {"mimeType": "image/png", "data": "QQ=="}}
    results = [
        {"functionResponse": {"name": "g", "id": "given", "response": {"error": "no"}}},
        {"functionResponse": {"name": "f", "response": {"output": "1"}}},
        {"functionResponse": {"name": "f", "response": {"result": 2}}},
        picture,
        {"functionResponse": {"name": "unheard_of", "response": {"output": ""}}},
        {"text": "go on"},
    ]
    body = {"contents": [{"role": "model", "parts": calls}, {"role": "function", "parts": results}]}
    assert decode_request(body).messages == (
        Message.assistant(
            "",
            [
                ToolCall("call_0", "f", '{"a": 1}'),
                ToolCall("other", "g", "{}", own(functionCall={"id": "other"})),
                ToolCall("given", "g", "{}", own(functionCall={"id": "given"})),
                ToolCall("call_3", "f"),
            ],
        ),
        Message.tool("no", "given", is_error=True, name="g"),
        Message.tool("1", "call_0", name="f"),
        Message.tool('{"result": 2}', "call_3", name="f"),
        Message.tool("", "unheard_of", name="unheard_of"),
        Message.user((ImagePart("QQ=="), TextPart("go on"))),
    )


def test_text_after_a_call_is_moved_before_the_calls():
    parts = [{"functionCall": {"name": "f"}}, {"text": "Wait."}]
    body = {"contents": [{"role": "model", "parts": parts}]}
    assert decode_request(body, PATH).messages == (
        Message.assistant("Wait.", [ToolCall("call_0", "f")]),
    )


def test_server_side_tools_are_ignored():
    function = {"name": "f", "description": "", "parametersJsonSchema": {"type": "object"}}
    tools = [{"googleSearch": {}}, {"functionDeclarations": [function]}]
    body = {"contents": [], "tools": tools}
    assert decode_request(body, PATH).tools == (ToolSpec("f", "", {"type": "object"}),)


@pytest.mark.parametrize(
    ("calling", "choice"),
    [
        ({"mode": "AUTO"}, "auto"),
        ({"mode": "NONE"}, "none"),
        ({"mode": "ANY"}, "required"),
        ({"mode": "ANY", "allowedFunctionNames": ["f"]}, "f"),
        ({"mode": "ANY", "allowedFunctionNames": ["f", "g"]}, "required"),
        ({"mode": "VALIDATED"}, None),
    ],
)
def test_a_tool_choice_is_decoded(calling, choice):
    body = {"contents": [], "toolConfig": {"functionCallingConfig": calling}}
    assert decode_request(body, PATH).tool_choice == choice


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, "'contents' is missing."),
        ({"contents": "hi"}, "'contents' must be a list, not str."),
        ({"contents": [1]}, "A content must be a JSON object, not int."),
        (
            {"contents": [{"role": "system"}]},
            "A content has the role 'system'; the roles are user and model.",
        ),
        (
            {"contents": [{"parts": [{"functionResponse": {}}]}]},
            "'functionResponse' needs a 'name'.",
        ),
        (
            {"contents": [{"role": "model", "parts": [{"functionCall": {}}]}]},
            "'functionCall' needs a 'name'.",
        ),
        (
            {"contents": [], "generationConfig": {"maxOutputTokens": 1.5}},
            "'maxOutputTokens' must be a whole number, not float.",
        ),
        (
            {"contents": [], "tools": [{"functionDeclarations": [{}]}]},
            "A function declaration needs a 'name'.",
        ),
    ],
)
def test_an_invalid_request_raises_an_error_that_names_the_field(body, expected):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared below
        decode_request(body, PATH)
    assert str(caught.value) == expected


@given(
    LIKELY
    | st.fixed_dictionaries(
        {"contents": LIKELY},
        optional={"tools": LIKELY, "toolConfig": LIKELY, "generationConfig": LIKELY},
    )
)
def test_any_json_value_is_decoded_or_raises_a_value_error(value):
    with contextlib.suppress(ValueError):  # and nothing but a ValueError
        decode_request(value, PATH)
