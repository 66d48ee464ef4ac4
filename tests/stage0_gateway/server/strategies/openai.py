"""Strategies for OpenAI's format: requests and replies that it represents without loss."""

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
    CHOICE,
    COUNT,
    DATA,
    IMAGE_TYPE,
    JSON,
    NAME,
    NOT_EMPTY,
    OBJECT,
    TEXT,
    URL,
    finish_reason,
    json_of,
)


def own(**fields):
    return {"openai": fields}


CALLS = st.lists(
    st.builds(
        ToolCall,
        NOT_EMPTY,
        NAME,
        NOT_EMPTY,
        st.none() | OBJECT.map(lambda data: own(extra_content={"google": data})),
    ),
    max_size=3,
)

# ---- replies

FINISH_REASONS = {
    "stop": "stop",
    "eos": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
    "error": "error",
    "function_call": "tool_calls",
}
NOTE = st.fixed_dictionaries(
    {"url": URL}, optional={"title": NOT_EMPTY, "content": NOT_EMPTY, "start_index": COUNT}
)


def cited(note):
    data = own(type="url_citation", url_citation=note)
    return Citation(note["url"], note.get("title"), note.get("content"), data)


@st.composite
def replies(draw):
    """Generate replies: thinking, then text, then calls, and a finish reason."""
    parts = []
    if thought := draw(TEXT):
        field = draw(st.sampled_from(["reasoning", "reasoning_content"]))
        parts.append(ThinkingPart(thought, own(field=field)))
    notes = draw(st.lists(NOTE, max_size=2))
    if text := draw(TEXT):
        parts.append(TextPart(text, tuple(map(cited, notes))))
    calls = draw(CALLS)
    raw, reason = draw(st.sampled_from([*FINISH_REASONS.items()]))
    refusal = draw(st.none() | NOT_EMPTY)
    usage = st.builds(Usage, COUNT, COUNT, st.none() | COUNT, st.none() | COUNT)
    return ChatResponse(
        Message.assistant(as_content(parts), calls),
        finish_reason="refusal" if refusal else finish_reason(reason, calls),
        raw_finish_reason=raw,
        usage=draw(st.none() | usage),
        model=draw(st.none() | NOT_EMPTY),
        request_id=draw(NOT_EMPTY),
        refusal=refusal,
    )


REPLIES = replies()

# ---- requests

MARKED = st.builds(TextPart, TEXT, provider_data=st.just(own(cache_control={"type": "ephemeral"})))
DETAIL = st.none() | st.just(own(image_url={"detail": "high"}))
FILE = st.one_of(
    st.builds(ImagePart, DATA, IMAGE_TYPE, provider_data=st.none() | st.just(own(detail=1))),
    st.builds(ImagePart, url=URL, provider_data=DETAIL),
    st.builds(DocumentPart, DATA, name=NOT_EMPTY),
    st.builds(DocumentPart, url=URL, name=NOT_EMPTY),
)
OTHER = st.builds(
    ProviderPart,
    st.just("openai"),
    OBJECT.map(lambda data: {"type": "input_audio", "input_audio": data}),
)
# Plain texts alone are merged into one text, so another part is always included.
PARTS = st.tuples(
    st.lists(MARKED | FILE | OTHER, min_size=1, max_size=3),
    st.lists(st.builds(TextPart, TEXT), max_size=2),
).flatmap(lambda lists: st.permutations([*lists[0], *lists[1]]).map(tuple))
MARKED_TEXTS = st.lists(MARKED, min_size=1, max_size=3).map(tuple)


@st.composite
def assistants(draw):
    """Generate assistant messages: Mistral sends thinking inside the content, other servers beside
    it and only with tool calls."""
    calls = draw(CALLS)
    content = draw(PARTS | NOT_EMPTY.map(lambda text: (TextPart(text),)) | st.just(()))
    fields = ["thinking", *(["reasoning", "reasoning_content"] if calls else [])]
    if draw(st.booleans()):
        thinking = ThinkingPart(draw(NOT_EMPTY), own(field=draw(st.sampled_from(fields))))
        content = (thinking, *content)
    return Message.assistant(as_content(content), calls)


MESSAGES = st.one_of(
    st.builds(Message.system, TEXT | MARKED_TEXTS),
    st.builds(Message.user, TEXT | PARTS),
    st.builds(Message.tool, TEXT | MARKED_TEXTS, NOT_EMPTY),
    assistants(),
)
REQUESTS = st.builds(
    ChatRequest,
    model=TEXT,
    messages=st.lists(MESSAGES, min_size=1, max_size=5).map(tuple),
    tools=st.lists(st.builds(ToolSpec, NAME, TEXT, OBJECT), max_size=2).map(tuple),
    tool_choice=CHOICE,
    temperature=st.none() | st.floats(0, 2) | st.integers(0, 2),
    max_tokens=st.none() | st.integers(1),
    response_schema=st.none() | OBJECT,
    stop=st.lists(TEXT, max_size=2).map(tuple),
    provider_options=st.none()
    | st.dictionaries(st.sampled_from(["seed", "user", "n"]), OBJECT | NOT_EMPTY, min_size=1),
)

LIKELY = json_of(
    "messages role content tools tool_calls function name arguments id type stop tool_choice "
    "response_format json_schema schema image_url url text file file_data thinking "
    "reasoning reasoning_content",
    "user tool text json_schema function",
)
BODIES = st.one_of(
    JSON,
    LIKELY,
    st.fixed_dictionaries({"messages": LIKELY}, optional={"tools": LIKELY, "stop": LIKELY}),
)
