"""Requests in OpenAI's Responses format; for replies see test_openai_responses_reply.py."""

import pytest

from stage0_gateway import (
    ChatRequest,
    ConfigurationError,
    DocumentPart,
    Gateway,
    ImagePart,
    JsonPart,
    Message,
    ProviderPart,
    ScriptedModel,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolSpec,
)
from stage0_gateway.wire import openai_responses
from stage0_gateway.wire.names import sent_name
from tests.tables import for_each

SPEC = ToolSpec("f", "does it", {"properties": {"a": {"type": "integer"}}})
REASONING = {
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "gAAA",
}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}


def own(**data):
    return {"openai-responses": data}


def items(*messages):
    return openai_responses.encode_messages(messages)


CONVERSATION = (
    Message.system("be brief"),
    Message.user(
        (TextPart("what is this?"), ImagePart("AAAA"), DocumentPart("BBBB", name="a.pdf"))
    ),
    Message.assistant(
        (ThinkingPart("hm", own(**REASONING)), TextPart("let me see", (), own(phase="commentary"))),
        [ToolCall("1", "f", '{"a": 1}'), ToolCall("2", "f", '{"a": ')],
    ),
    Message.tool((JsonPart({"b": 2}), ImagePart(url="u")), "1", name="f"),
    Message.tool("no such thing", "2", name="f", is_error=True),
)


def test_a_conversation_is_encoded_as_in_the_documentation():
    request = ChatRequest("m", CONVERSATION, tools=(SPEC,), temperature=0.0, max_tokens=9)
    assert openai_responses.encode(request, stream=True) == {
        "model": "m",
        "input": [
            {"role": "system", "content": "be brief"},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "what is this?"},
                    {
                        "type": "input_image",
                        "image_url": "data:image/png;base64,AAAA",
                        "detail": "auto",
                    },
                    {
                        "type": "input_file",
                        "filename": "a.pdf",
                        "file_data": "data:application/pdf;base64,BBBB",
                    },
                ],
            },
            {"type": "reasoning", **REASONING},
            {"role": "assistant", "content": "let me see", "phase": "commentary"},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": '{"a": 1}'},
            {"type": "function_call", "call_id": "2", "name": "f", "arguments": '{"a": '},
            {
                "type": "function_call_output",
                "call_id": "1",
                "output": [
                    {"type": "input_text", "text": '{"b": 2}'},
                    {"type": "input_image", "image_url": "u", "detail": "auto"},
                ],
            },
            {"type": "function_call_output", "call_id": "2", "output": "no such thing"},
        ],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "tools": [
            {
                "type": "function",
                "name": "f",
                "description": "does it",
                "parameters": {"properties": {"a": {"type": "integer"}}},
                "strict": False,
            }
        ],
        "temperature": 0.0,
        "max_output_tokens": 9,
        "stream": True,
    }


@for_each(
    "model", ["gpt-4o", "gpt-4.1-mini", "openai/gpt-4o", "gpt-3.5-turbo", "gpt-5-chat-latest"]
)
def test_models_without_reasoning_are_not_asked_for_it(model):
    body = openai_responses.encode(ChatRequest(model, (Message.user("hi"),)))
    assert body.keys() == {"model", "input", "store"}


@for_each("model", ["gpt-5-mini", "o4-mini", "openai/gpt-oss-20b", "grok-4.3"])
def test_models_with_reasoning_are_asked_for_encrypted_reasoning(model):
    body = openai_responses.encode(ChatRequest(model, (Message.user("hi"),)))
    assert body["include"] == ["reasoning.encrypted_content"]


@for_each(
    "choice, sent",
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("a.b", {"type": "function", "name": sent_name("a.b")}),
    ],
)
def test_a_tool_choice_is_encoded(choice, sent):
    request = ChatRequest("m", (Message.user("hi"),), (SPEC,), choice)
    assert openai_responses.encode(request)["tool_choice"] == sent


def test_a_schema_is_sent_as_the_format_of_the_text_beside_other_settings_of_the_text():
    schema = {"type": "object"}
    request = ChatRequest(
        "m",
        (Message.user("hi"),),
        response_schema=schema,
        provider_options={"text": {"verbosity": "low"}, "store": True},
    )
    body = openai_responses.encode(request)
    assert body["text"] == {
        "format": {"type": "json_schema", "name": "reply", "schema": schema},
        "verbosity": "low",
    }
    assert body["store"] is True


async def test_stop_texts_which_this_format_does_not_have_raise_an_error_with_the_alternative():
    async with Gateway("openai-responses:m", transport=ScriptedModel([])) as gateway:
        with pytest.raises(ConfigurationError, match="'openai:m'"):
            await gateway.chat([Message.user("hi")], stop="END")


def test_reasoning_calls_and_the_providers_own_items_keep_their_order():
    message = Message.assistant(
        (
            ThinkingPart("", own(id="rs_1", summary=[], encrypted_content="a")),
            ThinkingPart("", own(id="rs_2", summary=[], encrypted_content="b")),
            ProviderPart("openai-responses", SEARCH),
            TextPart("done"),
        ),
        [
            ToolCall("1", "f", "{}", own(at=1)),
            ToolCall("2", "f", "{}", own(at=2, namespace="crm")),
            ToolCall("3", "f", "{}"),
        ],
    )
    assert [
        item.get("id") or item.get("call_id") or item["content"] for item in items(message)
    ] == [
        "rs_1",
        "1",
        "rs_2",
        "2",
        "ws_1",
        "done",
        "3",
    ]
    assert items(message)[3]["namespace"] == "crm"
    assert items(message)[4] == SEARCH


@for_each(
    "part",
    [
        ThinkingPart("hm"),
        ThinkingPart("hm", {"anthropic": {"signature": "s"}}),
        ThinkingPart("hm", own(id="rs_1", summary=[])),  # unknown to a server that stores nothing
        ProviderPart("anthropic", SEARCH),
        TextPart(""),
    ],
)
def test_parts_that_the_server_would_reject_are_not_sent(part):
    assert items(Message.assistant((part,))) == []
    assert items(Message.assistant((part, TextPart("a")))) == [
        {"role": "assistant", "content": "a"}
    ]


def test_readable_reasoning_of_open_models_is_sent_back():
    content = [{"type": "reasoning_text", "text": "hm"}]
    reasoning = ThinkingPart("", own(id="rs_1", summary=[], content=content))
    assert items(Message.assistant((reasoning,))) == [
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": content}
    ]


def test_texts_alone_are_sent_as_one_text_because_simple_servers_accept_no_list():
    texts = (TextPart("a"), JsonPart([1]), TextPart("b"))
    assert items(Message.user(texts), Message.tool(texts, "1")) == [
        {"role": "user", "content": "a[1]b"},
        {"type": "function_call_output", "call_id": "1", "output": "a[1]b"},
    ]
    assert items(Message.assistant(texts)) == [
        {"role": "assistant", "content": text} for text in ("a", "[1]", "b")
    ]


def test_a_users_item_and_a_users_file_of_the_provider_are_sent_unchanged():
    file = {"type": "input_file", "file_id": "file-1"}
    approval = {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True}
    parts = (
        TextPart("this", (), own(prompt_cache_breakpoint={"mode": "explicit"})),
        ProviderPart("openai-responses", file),
        ProviderPart("openai-responses", approval),
        DocumentPart(url="https://example.com/a.pdf"),
    )
    text = {
        "type": "input_text",
        "text": "this",
        "prompt_cache_breakpoint": {"mode": "explicit"},
    }
    assert items(Message.user(parts)) == [
        {"role": "user", "content": [text, file]},
        approval,
        {
            "role": "user",
            "content": [{"type": "input_file", "file_url": "https://example.com/a.pdf"}],
        },
    ]


def test_a_tool_name_that_the_provider_rejects_is_encoded():
    tool, call = ToolSpec("a.b", ""), ToolCall("1", "a.b")
    assert openai_responses.encode_tools([tool])[0]["name"] == sent_name("a.b")
    assert items(Message.assistant("", [call]))[0]["name"] == sent_name("a.b")
