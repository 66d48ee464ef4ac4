"""Strategies for Anthropic's format: requests and replies that it represents without loss."""

from hypothesis import strategies as st

from stage0_gateway.messages import Message, as_content
from stage0_gateway.parts import (
    Citation,
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
    NOT_BLANK,
    NOT_EMPTY,
    OBJECT,
    TEXT,
    as_decoded,
    finish_reason,
    json_of,
)


def own(**fields):
    return {"anthropic": fields}


NOTE = st.fixed_dictionaries(
    {"type": st.just("char_location"), "cited_text": NOT_BLANK, "start_char_index": COUNT},
    optional={"document_title": NOT_BLANK, "url": NOT_BLANK},
)


def cited(note):
    return Citation(note.get("url"), note.get("document_title"), note["cited_text"], own(**note))


CITATIONS = st.lists(NOTE.map(cited), max_size=2).map(tuple)
SERVER_TOOL = st.fixed_dictionaries(
    {
        "type": st.just("server_tool_use"),
        "id": NOT_BLANK,
        "name": st.just("web_search"),
        "input": OBJECT,
    }
)
REDACTED = st.just({"type": "redacted_thinking", "data": "x"})


def items(call_ids):
    """Return a strategy for the parts and calls of an assistant message; no text is blank."""
    return st.one_of(
        st.builds(TextPart, NOT_BLANK, CITATIONS),
        st.builds(ThinkingPart, TEXT, NOT_BLANK.map(lambda text: own(signature=text))),
        st.builds(ProviderPart, st.just("anthropic"), SERVER_TOOL | REDACTED),
        st.builds(
            ToolCall,
            call_ids,
            NAME,
            ARGUMENTS,
            st.none() | st.just(own(caller={"type": "direct"})),
        ),
    )


def message_of(items):
    """Return an assistant message: parts in any order, then the calls."""
    parts = tuple(item for item in items if not isinstance(item, ToolCall))
    calls = [item for item in items if isinstance(item, ToolCall)]
    return Message.assistant(as_content(parts), calls)


# ---- replies

FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
    "compaction": "pause",
    "something_new": "unknown",
}
BLOCK = items(NOT_BLANK) | st.builds(ThinkingPart, TEXT) | st.builds(TextPart, TEXT)


@st.composite
def replies(draw):
    """Generate replies: blocks in any order, also unsigned thinking and empty texts."""
    raw, reason = draw(st.sampled_from([*FINISH_REASONS.items()]))
    blocks = [as_decoded(block, reason) for block in draw(st.lists(BLOCK, max_size=5))]
    if [block for block in blocks if not isinstance(block, ToolCall)] == [TextPart("")]:
        blocks.remove(TextPart(""))
    message = message_of(blocks)
    refusal = draw(st.none() | NOT_BLANK)
    usage = st.builds(Usage, *[st.none() | COUNT] * 5)
    return ChatResponse(
        message,
        finish_reason="refusal" if refusal else finish_reason(reason, message.tool_calls),
        raw_finish_reason=raw,
        usage=draw(st.none() | usage),
        model=draw(st.none() | NOT_BLANK),
        request_id=draw(NOT_BLANK),
        refusal=refusal,
    )


REPLIES = replies()

# ---- requests

ID = st.from_regex(r"[a-zA-Z0-9_-]{1,30}", fullmatch=True)  # other ids are replaced before sending
MARK = st.none() | st.just(own(cache_control={"type": "ephemeral"}))
CITED = st.just(own(citations={"enabled": True}))
PART = st.one_of(
    st.builds(TextPart, NOT_BLANK, CITATIONS, MARK),
    st.builds(ImagePart, NOT_BLANK, IMAGE_TYPE, provider_data=MARK),
    st.builds(ImagePart, url=NOT_BLANK, provider_data=MARK),
    st.builds(DocumentPart, NOT_BLANK, name=NOT_BLANK, provider_data=MARK),
    st.builds(DocumentPart, url=NOT_BLANK, name=NOT_BLANK, provider_data=CITED),
    st.builds(
        ProviderPart,
        st.just("anthropic"),
        OBJECT.map(lambda data: {"type": "search_result", "data": data}),
    ),
)
PARTS = st.lists(PART, min_size=1, max_size=4).map(tuple)
SYSTEM = NOT_BLANK | PARTS.filter(
    lambda parts: any(type(part) is not TextPart or part.provider_data for part in parts)
)
MESSAGES = st.one_of(
    st.builds(Message.user, NOT_BLANK | PARTS),
    st.builds(Message.tool, TEXT | PARTS, ID, is_error=st.booleans()),
    st.lists(items(ID), min_size=1, max_size=5).map(message_of),
)
SCHEMA = OBJECT.map(lambda schema: {"type": "object", **schema})
REQUESTS = st.builds(
    ChatRequest,
    model=TEXT,
    messages=st.builds(
        lambda system, rest: (*system, *rest),
        st.lists(st.builds(Message.system, SYSTEM), max_size=1),
        st.lists(MESSAGES, max_size=5),
    ),
    tools=st.lists(st.builds(ToolSpec, NAME, TEXT, SCHEMA), max_size=2).map(tuple),
    tool_choice=CHOICE,
    temperature=st.none() | st.floats(0, 1),
    max_tokens=st.integers(1),  # the format requires this field
    response_schema=st.none() | OBJECT,
    stop=st.lists(TEXT, max_size=2).map(tuple),
    provider_options=st.none()
    | st.dictionaries(st.sampled_from(["top_k", "metadata"]), OBJECT | NOT_EMPTY, min_size=1)
    | st.just({"output_config": {"effort": "low"}}),
)

LIKELY = json_of(
    "messages role content system tools tool_choice name input id type text tool_use_id source "
    "citations title thinking input_schema output_config format",
    "user assistant text thinking image document tool_use tool_result tool",
)
BODIES = st.one_of(
    JSON,
    LIKELY,
    st.fixed_dictionaries({"messages": LIKELY}, optional={"tools": LIKELY, "system": LIKELY}),
)
