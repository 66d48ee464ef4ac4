"""Requests in Anthropic's format; for replies see test_anthropic_reply.py."""

from stage0_gateway import (
    ChatRequest,
    Citation,
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
from stage0_gateway.wire import anthropic
from stage0_gateway.wire.names import sent_name
from tests.tables import for_each

SPEC = ToolSpec("f", "does it", {"properties": {"a": {"type": "integer"}}})
SIGNED = {"anthropic": {"signature": "s"}}
CONVERSATION = (
    Message.system("be brief"),
    Message.system("be kind"),
    Message.user(
        (TextPart("what is this?"), ImagePart("AAAA"), DocumentPart(url="u", name="a.pdf"))
    ),
    Message.assistant(
        (ThinkingPart("hm", SIGNED), TextPart("let me see")),
        [ToolCall("1", "f", '{"a": 1}'), ToolCall("2", "f", '{"a": ')],
    ),
    Message.tool((JsonPart({"b": 2}), ImagePart("BBBB")), "1", name="f"),
    Message.tool("no such thing", "2", name="f", is_error=True),
)


def picture(data):
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def test_a_conversation_is_encoded_as_in_the_documentation():
    request = ChatRequest(
        "m", CONVERSATION, tools=(SPEC,), temperature=0.0, max_tokens=9, stop=("END",)
    )
    assert anthropic.encode(request, stream=True) == {
        "model": "m",
        "max_tokens": 9,
        "system": "be brief\n\nbe kind",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "what is this?"},
                    picture("AAAA"),
                    {"type": "document", "title": "a.pdf", "source": {"type": "url", "url": "u"}},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "text", "text": "let me see"},
                    {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}},
                    {
                        "type": "tool_use",
                        "id": "2",
                        "name": "f",
                        "input": {"not_a_json_object": '{"a": '},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "1",
                        "content": [{"type": "text", "text": '{"b": 2}'}, picture("BBBB")],
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "2",
                        "content": "no such thing",
                        "is_error": True,
                    },
                ],
            },
        ],
        "tools": [
            {
                "name": "f",
                "description": "does it",
                "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
            }
        ],
        "temperature": 0.0,
        "stop_sequences": ["END"],
        "stream": True,
    }


def encoded(*messages, **more):
    return anthropic.encode(ChatRequest("m", messages, **more))


def test_a_default_max_tokens_is_sent_because_the_format_requires_it():
    assert encoded() == {"model": "m", "max_tokens": anthropic.DEFAULT_MAX_TOKENS, "messages": []}


@for_each(
    "choice, expected",
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ("a.b", {"type": "tool", "name": sent_name("a.b")}),
    ],
)
def test_a_tool_choice_is_translated_to_the_format(choice, expected):
    assert encoded(tool_choice=choice)["tool_choice"] == expected


def test_a_schema_is_encoded_and_merged_with_provider_options():
    options = {"output_config": {"effort": "low"}, "thinking": {"type": "adaptive"}}
    body = encoded(response_schema={"type": "object"}, provider_options=options)
    assert (body["output_config"], body["thinking"]) == (
        {"format": {"type": "json_schema", "schema": {"type": "object"}}, "effort": "low"},
        {"type": "adaptive"},
    )


def test_a_plain_text_document_is_sent_as_text():
    document = DocumentPart("SGVsbG8=", "text/plain", "a.txt")
    body = anthropic.encode(ChatRequest("m", (Message.user((document,)),)), stream=False)
    source = {"type": "text", "media_type": "text/plain", "data": "Hello"}
    assert body["messages"][0]["content"] == [
        {"type": "document", "title": "a.txt", "source": source}
    ]


def test_parts_that_the_format_does_not_accept_are_omitted():
    """Empty texts, unsigned thinking, parts of other providers, and messages that are then empty."""
    nothing = (ThinkingPart("hm"), TextPart(""), ProviderPart("gemini", {"executableCode": {}}))
    messages = (Message.user(""), Message.assistant(nothing), Message.user("hi"))
    assert encoded(*messages)["messages"] == [{"role": "user", "content": "hi"}]


def test_cache_marks_citations_and_own_blocks_are_sent_back_unchanged():
    mark = {"cache_control": {"type": "ephemeral"}}
    cited = {"type": "char_location", "cited_text": "q"}
    text = TextPart(
        "a", (Citation(provider_data={"anthropic": cited}), Citation("u")), {"anthropic": mark}
    )
    block = {"type": "mcp_tool_use", "id": "x"}
    body = encoded(
        Message.system((TextPart("s", provider_data={"anthropic": mark}),)),
        Message.assistant((text, ProviderPart("anthropic", block))),
    )
    assert body["system"] == [{"type": "text", "text": "s", **mark}]
    text_block = {"type": "text", "text": "a", "citations": [cited], **mark}
    assert body["messages"] == [{"role": "assistant", "content": [text_block, block]}]


def test_a_system_message_with_an_own_block_keeps_its_position():
    own = Message.system((ProviderPart("anthropic", {"type": "mid_conversation"}), TextPart("now")))
    other = Message.system((ProviderPart("gemini", {"x": 1}), TextPart("be brief")))
    body = encoded(Message.user("hi"), own, other)
    assert body["system"] == "be brief"
    assert body["messages"][1:] == [
        {
            "role": "system",
            "content": [{"type": "mid_conversation"}, {"type": "text", "text": "now"}],
        }
    ]
