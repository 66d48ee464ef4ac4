"""Requests in OpenAI's format; for replies see test_openai_reply.py."""

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
from stage0_gateway.wire import openai
from stage0_gateway.wire.names import sent_name
from tests.stage0_gateway.requests import CONVERSATION, SPEC
from tests.tables import for_each


def test_a_conversation_is_encoded_as_in_the_documentation():
    body = openai.encode(
        ChatRequest("m", CONVERSATION, tools=(SPEC,), temperature=0.0, max_tokens=9, stop=("END",))
    )
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "what is this?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                    {
                        "type": "file",
                        "file": {
                            "filename": "a.pdf",
                            "file_data": "data:application/pdf;base64,BBBB",
                        },
                    },
                ],
            },
            {
                "role": "assistant",
                "content": "let me see",
                "tool_calls": [
                    {
                        "id": "1",
                        "type": "function",
                        "function": {"name": "f", "arguments": '{"a": 1}'},
                    }
                ],
            },
            {"role": "tool", "content": '{"b": 2}', "tool_call_id": "1"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "f",
                    "description": "does it",
                    "parameters": dict(SPEC.parameters),
                },
            }
        ],
        "temperature": 0.0,
        "max_tokens": 9,
        "stop": ["END"],
    }


@for_each("choice", ["auto", "none", "required"])
def test_a_general_tool_choice_is_sent_unchanged(choice):
    assert openai.encode(ChatRequest("m", (), tool_choice=choice))["tool_choice"] == choice


def test_provider_options_are_added_to_the_body():
    request = ChatRequest("m", (), provider_options={"seed": 7})
    assert openai.encode(request) == {"model": "m", "messages": [], "seed": 7}


def test_a_streaming_request_asks_for_the_usage():
    assert openai.encode(ChatRequest("m", ()), stream=True) == {
        "model": "m",
        "messages": [],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def sent(*messages):
    return openai.encode(ChatRequest("m", messages))["messages"]


def text(text):
    return {"type": "text", "text": text}


def image(url):
    return {"type": "image_url", "image_url": {"url": url}}


def test_images_of_tool_results_follow_the_last_result_because_results_must_be_adjacent():
    results = [
        Message.tool((TextPart("a"), ImagePart(url="u")), "1"),
        Message.tool("b", "2"),
        Message.tool((ImagePart(url="v"),), "3", name="get_map"),
    ]
    assert sent(*results, Message.user("well?")) == [
        {
            "role": "tool",
            "content": "a\n[Image 1 follows in the next user message.]",
            "tool_call_id": "1",
        },
        {"role": "tool", "content": "b", "tool_call_id": "2"},
        {
            "role": "tool",
            "content": "[Image 1 follows in the next user message.]",
            "tool_call_id": "3",
        },
        {
            "role": "user",
            "content": [
                text("Image 1 of the result of tool (1):"),
                image("u"),
                text("Image 1 of the result of get_map (3):"),
                image("v"),
            ],
        },
        {"role": "user", "content": "well?"},
    ]


def test_each_file_of_a_mixed_result_is_referred_to_in_its_place():
    before, after = ImagePart(url="before"), ImagePart(url="after")
    report = DocumentPart(url="report", name="r.pdf")
    audio = {"type": "input_audio", "input_audio": {}}
    content = (
        TextPart("Before:"),
        before,
        JsonPart({"a": 1}),
        after,
        report,
        TextPart("That is all."),
        ProviderPart("openai", audio),
    )
    result, files = sent(Message.tool(content, "1", name="a.b"))
    assert result["content"] == (
        "Before:\n[Image 1 follows in the next user message.]"
        '{"a": 1}\n[Image 2 follows in the next user message.]'
        "\n[Document 1 follows in the next user message.]"
        "That is all.\n[File 1 follows in the next user message.]"
    )
    call = f"{sent_name('a.b')} (1)"
    assert files == {
        "role": "user",
        "content": [
            text(f"Image 1 of the result of {call}:"),
            image("before"),
            text(f"Image 2 of the result of {call}:"),
            image("after"),
            text(f"Document 1 of the result of {call}:"),
            {"type": "file", "file": {"filename": "r.pdf", "file_data": "report"}},
            text(f"File 1 of the result of {call}:"),
            audio,
        ],
    }


def test_the_text_of_a_result_without_files_stays_as_it_is():
    (result,) = sent(Message.tool((TextPart("a"), JsonPart(1), TextPart("b")), "1"))
    assert result["content"] == "a1b"


def test_a_marked_text_of_a_result_keeps_its_mark_beside_a_reference():
    marked = TextPart("a", provider_data={"openai": {"cache_control": {}}})
    result, _ = sent(Message.tool((marked, ImagePart(url="u")), "1"))
    assert result["content"] == [
        {"type": "text", "text": "a", "cache_control": {}},
        text("\n[Image 1 follows in the next user message.]"),
    ]


def test_an_unsupported_tool_name_is_replaced_everywhere():
    spec, call = ToolSpec("a.b", ""), ToolCall("1", "a.b")
    body = openai.encode(
        ChatRequest("m", (Message.assistant("", [call]),), tools=(spec,), tool_choice="a.b")
    )
    names = [
        body["tools"][0]["function"]["name"],
        body["tool_choice"]["function"]["name"],
        body["messages"][0]["tool_calls"][0]["function"]["name"],
    ]
    assert names == [sent_name("a.b")] * 3


@for_each("field", ["reasoning_content", "reasoning"])
def test_thinking_is_sent_back_under_its_field_only_while_its_calls_are_answered(field):
    thinking = ThinkingPart("hm", {"openai": {"field": field}})
    assert sent(Message.assistant((thinking,), [ToolCall("1", "f")]))[0][field] == "hm"
    assert sent(Message.assistant((thinking, TextPart("a")))) == [
        {"role": "assistant", "content": "a"}
    ]


def test_provider_data_of_openai_is_sent_back_and_data_of_other_providers_is_not():
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    content = (
        ThinkingPart("hm", {"openai": {"field": "reasoning", "reasoning_details": details}}),
        ThinkingPart("so", {"openai": {"field": "thinking"}}),
        TextPart("a", provider_data={"openai": {"extra_content": {"g": 1}}, "gemini": {"x": 1}}),
        ProviderPart("openai", {"type": "odd"}),
        ProviderPart("anthropic", {"type": "mcp_tool_use"}),
    )
    assert sent(Message.assistant(content)) == [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "so"}]},
                {"type": "text", "text": "a"},
                {"type": "odd"},
            ],
            "reasoning_details": details,
            "extra_content": {"g": 1},
        }
    ]


def test_the_stored_position_of_a_call_is_not_sent():
    (message,) = sent(
        Message.assistant("hi", [ToolCall("1", "f", "{}", {"openai": {"at": 0, "x": 1}})])
    )
    function = {"name": "f", "arguments": "{}"}
    assert message["tool_calls"] == [{"id": "1", "type": "function", "function": function, "x": 1}]
