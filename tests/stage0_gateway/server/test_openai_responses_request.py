import contextlib
import json

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
from stage0_gateway.server.openai_responses import decode_request
from stage0_gateway.server.routing import wants_stream
from stage0_gateway.wire import openai_responses as wire
from tests.tables import for_each

PATH = "/v1/responses"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
NAMES = (
    "input role content tools function_call name arguments id call_id type output tool_choice text "
    "format json_schema schema image_url file_data filename summary reasoning message instructions"
)
FIELDS = st.sampled_from(NAMES.split())
LIKELY = st.recursive(
    st.none()
    | st.integers()
    | st.sampled_from(
        [
            *("user", "assistant", "message", "function_call", "function_call_output"),
            *("reasoning", "input_text", "output_text", "function", "json_schema", ""),
        ]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=30,
)


def own(**fields):
    return {"openai-responses": fields}


# ---- requests that this format can represent without loss
# ----------------------------------------------

TEXT = st.text(max_size=30)
NOT_BLANK = st.text(min_size=1, max_size=30)
OBJECT = st.dictionaries(
    NOT_BLANK, st.integers() | TEXT | st.booleans() | st.lists(TEXT, max_size=2), max_size=3
)
NAME = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,10}", fullmatch=True).filter(
    lambda name: name not in ("auto", "none", "required")
)
URL = NOT_BLANK.map("https://example.com/{}".format)
DATA = st.binary(max_size=6).map(bytes.hex)
IMAGE = st.builds(ImagePart, DATA, st.sampled_from(["image/png", "image/webp"])) | st.builds(
    ImagePart, url=URL
)
DOCUMENT = st.builds(DocumentPart, DATA, name=NOT_BLANK) | st.builds(DocumentPart, url=URL)
FILE = st.builds(
    ProviderPart,
    st.just("openai-responses"),
    st.fixed_dictionaries({"type": st.just("input_file"), "file_id": NOT_BLANK}),
)
# Plain texts alone are merged into one text, so another part is always included.
PARTS = st.tuples(
    st.lists(st.builds(TextPart, TEXT) | IMAGE | DOCUMENT | FILE, max_size=2), IMAGE | FILE
).map(lambda drawn: (*drawn[0], drawn[1]))
CONTENT = TEXT | PARTS
REASONING = st.builds(
    lambda id, text, encrypted: ThinkingPart(
        text,
        own(
            id=id,
            summary=[{"type": "summary_text", "text": text}],
            encrypted_content=encrypted,
        ),
    ),
    NOT_BLANK,
    NOT_BLANK,
    NOT_BLANK,
)
ITEM = st.builds(
    ProviderPart,
    st.just("openai-responses"),
    st.fixed_dictionaries({"type": st.just("web_search_call"), "id": NOT_BLANK, "action": OBJECT}),
)
ANSWER = st.builds(TextPart, NOT_BLANK, st.just(()), st.none() | st.just(own(phase="commentary")))


@st.composite
def answers(draw):
    parts = draw(st.lists(REASONING | ANSWER | ITEM, min_size=1, max_size=4))
    places = sorted(draw(st.lists(st.integers(0, len(parts)), max_size=3)))
    calls = [
        ToolCall(f"call-{n}", draw(NAME), draw(NOT_BLANK), own(at=at) if at < len(parts) else None)
        for n, at in enumerate(places)
    ]
    return Message.assistant(as_content(parts), calls)


# The items of two answers that follow each other cannot be distinguished.
TURN = st.tuples(
    st.builds(Message.user, CONTENT) | st.builds(Message.tool, CONTENT, NOT_BLANK), answers()
)
SCHEMA = OBJECT.map(lambda properties: {"type": "object", "x": properties})
REQUESTS = st.builds(
    ChatRequest,
    NOT_BLANK,
    st.tuples(st.lists(st.builds(Message.system, CONTENT), max_size=1), st.lists(TURN, min_size=1)).map(
        lambda drawn: (*drawn[0], *(message for turn in drawn[1] for message in turn))
    ),
    st.lists(st.builds(ToolSpec, NAME, TEXT, SCHEMA), max_size=2).map(tuple),
    st.none() | st.sampled_from(["auto", "none", "required"]) | NAME,
    st.none() | st.floats(0, 2),
    st.none() | st.integers(1, 10**6),
    st.none() | SCHEMA,
)  # fmt: skip


@given(REQUESTS, st.booleans())
def test_a_request_of_the_client_is_decoded_without_loss(request, stream):
    body = json.loads(json.dumps(wire.encode(request, stream=stream)))
    assert decode_request(body, PATH) == request
    assert wants_stream(PATH, body) is stream


# ---- requests of other clients


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        ({"input": "hi"}, (Message.user("hi"),)),
        (
            {"input": "hi", "instructions": "be brief"},
            (Message.system("be brief"), Message.user("hi")),
        ),
        (
            {"input": [{"type": "message", "role": "developer", "content": "a"}]},
            (Message.system("a"),),
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}]},
            (Message.user("a"),),
        ),
    ],
)
def test_short_forms_are_decoded(body, messages):
    assert decode_request(body).messages == messages


def test_items_copied_from_a_reply_are_one_message():
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "a", "annotations": []},
                {"type": "output_text", "text": "b", "annotations": []},
            ],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "f",
            "arguments": "",
            "status": "completed",
        },
    ]
    result = {"type": "function_call_output", "call_id": "c1", "output": "22"}
    request = decode_request({"input": [{"role": "user", "content": "hi"}, *output, result]})
    reasoning = own(id="rs_1", summary=[], encrypted_content="x")
    assert request.messages == (
        Message.user("hi"),
        Message.assistant(
            (ThinkingPart("", reasoning), TextPart("a"), TextPart("b")), [ToolCall("c1", "f", "{}")]
        ),
        Message.tool("22", "c1"),
    )


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_image", "file_id": "f", "detail": "high"},
        {"type": "input_audio", "input_audio": {}},
        {"type": "of_next_year"},
    ],
)
def test_a_part_of_an_unknown_type_is_kept_unchanged(part):
    request = decode_request({"input": [{"role": "user", "content": [part]}]})
    assert request.messages[0].content == (ProviderPart("openai-responses", part),)


def test_tools_of_the_server_and_other_choices_are_ignored():
    tools = [{"type": "web_search"}, {"type": "function", "name": "f", "parameters": None}]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": []}
    request = decode_request({"input": "hi", "tools": tools, "tool_choice": choice})
    assert (request.tools, request.tool_choice) == ((ToolSpec("f", ""),), None)


@for_each(
    "body, expected",
    [
        ({}, "'input' must hold at least one message."),
        ({"input": []}, "'input' must hold at least one message."),
        ({"input": 5}, "'input' must be a list, not int."),
        ({"input": [1]}, "An item of 'input' must be a JSON object, not int."),
        (
            {"input": [{"role": "king"}]},
            "A message has the role 'king'; the roles are system, developer, user and assistant.",
        ),
        (
            {"input": [{"type": "function_call_output", "output": "a"}]},
            "A tool message needs the tool_call_id of the call it answers.",
        ),
        (
            {"input": [{"type": "function_call", "name": "f"}]},
            "A 'function_call' needs 'call_id', 'name' and 'arguments'.",
        ),
        (
            {"input": "hi", "max_output_tokens": True},
            "'max_output_tokens' must be a whole number, not bool.",
        ),
        (
            {"input": "hi", "tools": [{"type": "function"}]},
            "Each of 'tools' needs a 'type', and a function a 'name'.",
        ),
        (
            {"input": [{"role": "assistant", "content": [5]}]},
            "An item of 'input' is invalid: 'int' object has no attribute 'get'.",
        ),
        ({"input": "hi", "instructions": 5}, "'instructions' must be text, not int."),
    ],
)
def test_an_invalid_request_raises_an_error_that_names_the_field(body, expected):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared below
        decode_request(body)
    assert str(caught.value) == expected


@given(
    JSON
    | LIKELY
    | st.fixed_dictionaries(
        {"input": st.lists(st.dictionaries(FIELDS, LIKELY, max_size=5), max_size=3)},
        optional={"tools": LIKELY, "text": LIKELY},
    )
)
def test_any_json_value_is_decoded_or_raises_a_value_error(value):
    with contextlib.suppress(ValueError):  # and nothing but a ValueError
        decode_request(value)
