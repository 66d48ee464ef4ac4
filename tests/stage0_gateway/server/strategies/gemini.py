"""Strategies for Gemini's format: requests and replies that it represents without loss."""

from dataclasses import replace

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
from stage0_gateway.response import ChatResponse, Usage
from tests.stage0_gateway.server.strategies.values import (
    ARGUMENTS,
    CHOICE,
    COUNT,
    IMAGE_TYPE,
    JSON,
    NAME,
    NOT_EMPTY,
    OBJECT,
    TEXT,
    as_decoded,
    finish_reason,
    json_of,
)


def own(**fields):
    return {"gemini": fields} if fields else None


SIGNED = NOT_EMPTY.map(lambda text: own(thoughtSignature=text))
TEXT_PART = st.builds(TextPart, NOT_EMPTY)
SIGNED_TEXT = st.builds(TextPart, TEXT, provider_data=SIGNED)
THOUGHT = st.builds(ThinkingPart, TEXT, st.just(own(thought=True)))
SIGNED_THOUGHT = st.builds(
    ThinkingPart, TEXT, NOT_EMPTY.map(lambda text: own(thought=True, thoughtSignature=text))
)
CALL = st.builds(ToolCall, st.just("") | st.uuids().map(str), NAME, ARGUMENTS, st.none() | SIGNED)


def code(data):
    """Return a strategy for parts of this provider alone."""
    return st.builds(
        ProviderPart, st.just("gemini"), data.map(lambda value: {"executableCode": value})
    )


def items(data):
    """Return a strategy for the parts and calls of an assistant message."""
    return st.one_of(TEXT_PART, SIGNED_TEXT, THOUGHT, SIGNED_THOUGHT, code(data), CALL)


def message_of(items):
    """Return an assistant message as a session stores it: parts, then calls; calls without an id
    are numbered."""
    parts = [item for item in items if not isinstance(item, ToolCall)]
    calls = []
    for number, call in enumerate(item for item in items if isinstance(item, ToolCall)):
        data = dict((call.provider_data or {}).get("gemini", {}))
        data |= {"functionCall": {"id": call.id}} if call.id else {}
        calls.append(replace(call, id=call.id or f"call_{number}", provider_data=own(**data)))
    return Message.assistant(as_content(parts), calls)


# ---- replies

FINISH_REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "refusal",
    "MALFORMED_FUNCTION_CALL": "error",
    "OTHER": "unknown",
    "SOMETHING_NEW": "unknown",
}


@st.composite
def replies(draw):
    """Generate replies: parts in any order, no two unsigned texts of a kind in a row; then calls."""
    raw, reason = draw(st.sampled_from([*FINISH_REASONS.items()]))
    drawn = [as_decoded(item, reason) for item in draw(st.lists(items(OBJECT), max_size=6))]
    parts = []
    for item in sorted(drawn, key=lambda item: isinstance(item, ToolCall)):
        if not (parts and type(item) is type(parts[-1]) and is_open(item) and is_open(parts[-1])):
            parts.append(item)
    message = message_of(parts)
    return ChatResponse(
        message,
        finish_reason=finish_reason(reason, message.tool_calls),
        raw_finish_reason=raw,
        usage=draw(st.none() | st.builds(Usage, *[st.none() | COUNT] * 4)),
        model=draw(st.none() | NOT_EMPTY),
        request_id=draw(st.none() | NOT_EMPTY),
    )


def is_open(item):
    """Return whether a following text of the same kind would be merged into this part."""
    is_text = isinstance(item, TextPart | ThinkingPart)
    return is_text and "thoughtSignature" not in (item.provider_data or {}).get("gemini", {})


REPLIES = replies()

# ---- requests

# A file has no name here, and its type decides whether it is an image.
DOCUMENT_TYPE = st.sampled_from(["application/pdf", "video/mp4"])
FILE = st.one_of(
    st.builds(ImagePart, TEXT, IMAGE_TYPE, provider_data=st.none() | SIGNED),
    st.builds(ImagePart, url=NOT_EMPTY),
    st.builds(DocumentPart, TEXT, DOCUMENT_TYPE),
    st.builds(DocumentPart, url=NOT_EMPTY, provider_data=st.just(own(videoMetadata={"fps": 1}))),
)
CODE = st.fixed_dictionaries({"code": TEXT})  # the names of fields may be spelled in two ways
PARTS = st.lists(TEXT_PART | SIGNED_TEXT | FILE | code(CODE), min_size=1, max_size=4).map(
    as_content
)


@st.composite
def turns(draw):
    """Generate a user message, or an assistant message with a result for each of its calls."""
    if draw(st.booleans()):
        return [Message.user(draw(PARTS))]
    message = message_of(draw(st.lists(items(CODE), min_size=1, max_size=5)))
    results = [
        Message.tool(draw(TEXT), call.id, is_error=draw(st.booleans()), name=call.name)
        for call in message.tool_calls
    ]
    return [message, *results]


REQUESTS = st.builds(
    ChatRequest,
    model=NOT_EMPTY,
    messages=st.builds(
        lambda system, rest: (*system, *(message for turn in rest for message in turn)),
        st.lists(st.builds(Message.system, PARTS), max_size=1),
        st.lists(turns(), max_size=4),
    ),
    tools=st.lists(st.builds(ToolSpec, NAME, TEXT, OBJECT), max_size=2).map(tuple),
    tool_choice=CHOICE,
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

LIKELY = json_of(
    "contents role parts text systemInstruction tools functionDeclarations name args functionCall "
    "functionResponse function_response response inlineData file_data data toolConfig "
    "functionCallingConfig mode generationConfig parameters type thought id responseSchema "
    "system_instruction function_declarations generation_config nullable enum any_of properties "
    "items",
    "user model ANY OBJECT",
)
BODIES = st.one_of(
    JSON,
    LIKELY,
    st.fixed_dictionaries(
        {"contents": LIKELY},
        optional={"tools": LIKELY, "toolConfig": LIKELY, "generationConfig": LIKELY},
    ),
)
