"""Strategies for OpenAI's Responses format: requests and replies that it represents without loss."""

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
    return {"openai-responses": fields}


def reasoning(id, summaries, encrypted):
    parts = [{"type": "summary_text", "text": text} for text in summaries]
    data = {"id": id, "summary": parts, "encrypted_content": encrypted}
    return ThinkingPart("\n\n".join(summaries), own(**data))


PHASE = st.none() | st.just(own(phase="commentary"))
SEARCH = st.builds(
    ProviderPart,
    st.just("openai-responses"),
    st.fixed_dictionaries({"type": st.just("web_search_call"), "id": NOT_EMPTY, "action": OBJECT}),
)


@st.composite
def assistants(draw, parts, data):
    """Generate assistant messages: parts, and calls between them with further data of their own."""
    items = draw(parts)
    calls = []
    for number, at in enumerate(sorted(draw(st.lists(st.integers(0, len(items)), max_size=3)))):
        fields = draw(data) | ({"at": at} if at < len(items) else {})
        own_fields = own(**fields) if fields else None
        calls.append(ToolCall(f"call-{number}", draw(NAME), draw(NOT_EMPTY), own_fields))
    return Message.assistant(as_content(items), calls)


# ---- replies

FINISH_REASONS = {
    "completed": "stop",
    "max_output_tokens": "length",
    "content_filter": "refusal",
    "pause_turn": "pause",
    "error": "error",
}
NOTE = st.fixed_dictionaries(
    {"type": st.just("url_citation"), "url": NOT_EMPTY, "title": NOT_EMPTY},
    optional={"start_index": COUNT},
)


def cited(note):
    return Citation(note["url"], note["title"], None, own(**note))


CITATIONS = st.lists(NOTE, max_size=2, unique_by=str).map(lambda notes: tuple(map(cited, notes)))
THINKING = st.builds(reasoning, NOT_EMPTY, st.lists(NOT_EMPTY, max_size=3), NOT_EMPTY)
CITED_TEXT = st.builds(TextPart, NOT_EMPTY, CITATIONS, PHASE)
NAMESPACE = st.sampled_from([{}, {"namespace": "crm"}])


@st.composite
def replies(draw):
    """Generate replies: items in any order, and a finish reason."""
    message = draw(assistants(st.lists(THINKING | CITED_TEXT | SEARCH, max_size=4), NAMESPACE))
    raw, reason = draw(st.sampled_from([*FINISH_REASONS.items()]))
    refusal = draw(st.none() | NOT_EMPTY)
    if refusal:
        raw, reason = "completed", "refusal"
    counts = st.builds(Usage, COUNT, COUNT, *[st.none() | COUNT] * 3)
    return ChatResponse(
        message,
        finish_reason=finish_reason(reason, message.tool_calls),
        raw_finish_reason=raw,
        usage=draw(st.none() | counts),
        model=draw(st.none() | NOT_EMPTY),
        request_id=draw(NOT_EMPTY),
        refusal=refusal,
    )


REPLIES = replies()

# ---- requests

IMAGE = st.builds(ImagePart, DATA, IMAGE_TYPE) | st.builds(ImagePart, url=URL)
DOCUMENT = st.builds(DocumentPart, DATA, name=NOT_EMPTY) | st.builds(DocumentPart, url=URL)
FILE = st.builds(
    ProviderPart,
    st.just("openai-responses"),
    st.fixed_dictionaries({"type": st.just("input_file"), "file_id": NOT_EMPTY}),
)
# Plain texts alone are merged into one text, so another part is always included.
PARTS = st.builds(
    lambda parts, last: (*parts, last),
    st.lists(st.builds(TextPart, TEXT) | IMAGE | DOCUMENT | FILE, max_size=2),
    IMAGE | FILE,
)
CONTENT = TEXT | PARTS
ONE_SUMMARY = st.builds(reasoning, NOT_EMPTY, NOT_EMPTY.map(lambda text: [text]), NOT_EMPTY)
PLAIN_TEXT = st.builds(TextPart, NOT_EMPTY, st.just(()), PHASE)
# The items of two answers that follow each other cannot be distinguished.
TURN = st.tuples(
    st.builds(Message.user, CONTENT) | st.builds(Message.tool, CONTENT, NOT_EMPTY),
    assistants(st.lists(ONE_SUMMARY | PLAIN_TEXT | SEARCH, min_size=1, max_size=4), st.just({})),
)
SCHEMA = OBJECT.map(lambda properties: {"type": "object", "x": properties})
REQUESTS = st.builds(
    ChatRequest,
    model=NOT_EMPTY,
    messages=st.builds(
        lambda system, rest: (*system, *(message for turn in rest for message in turn)),
        st.lists(st.builds(Message.system, CONTENT), max_size=1),
        st.lists(TURN, min_size=1),
    ),
    tools=st.lists(st.builds(ToolSpec, NAME, TEXT, SCHEMA), max_size=2).map(tuple),
    tool_choice=CHOICE,
    temperature=st.none() | st.floats(0, 2),
    max_tokens=st.none() | st.integers(1, 10**6),
    response_schema=st.none() | SCHEMA,
)

FIELDS = (
    "input role content tools function_call name arguments id call_id type output tool_choice text "
    "format json_schema schema image_url file_data filename summary reasoning message instructions"
)
LIKELY = json_of(
    FIELDS,
    "user assistant message function_call function_call_output reasoning input_text output_text "
    "function json_schema",
)
ITEM = st.dictionaries(st.sampled_from(FIELDS.split()), LIKELY, max_size=5)
ITEMS = st.lists(ITEM, max_size=3)
BODIES = st.one_of(
    JSON,
    LIKELY,
    st.fixed_dictionaries({"input": ITEMS}, optional={"tools": LIKELY, "text": LIKELY}),
)
