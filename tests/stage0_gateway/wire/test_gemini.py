"""Requests in Gemini's format; for replies see test_gemini_reply.py."""

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
)
from stage0_gateway.wire import gemini
from stage0_gateway.wire.names import sent_name
from tests.stage0_gateway.requests import SPEC
from tests.tables import for_each

CONVERSATION = (
    Message.system("be brief"),
    Message.user((TextPart("what is this?"), ImagePart("AAAA"), DocumentPart(url="u"))),
    Message.assistant(
        (
            ThinkingPart("hm", {"gemini": {"thought": True, "thoughtSignature": "s"}}),
            TextPart("let me see"),
        ),
        [
            ToolCall("call_0", "f", '{"a": 1}', {"gemini": {"thoughtSignature": "t"}}),
            ToolCall("x", "g", "", {"gemini": {"functionCall": {"id": "x"}}}),
        ],
    ),
    Message.tool((JsonPart({"b": 2}), ImagePart("BBBB")), "call_0", name="f"),
    Message.tool("no such thing", "x", name="g", is_error=True),
)


def test_a_conversation_is_encoded_as_in_the_documentation():
    request = ChatRequest(
        "m", CONVERSATION, tools=(SPEC,), temperature=0.0, max_tokens=9, stop=("END",)
    )
    assert gemini.encode(request, stream=True) == {
        "systemInstruction": {"parts": [{"text": "be brief"}]},
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "what is this?"},
                    {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
                    {"fileData": {"mimeType": "application/pdf", "fileUri": "u"}},
                ],
            },
            {
                "role": "model",
                "parts": [
                    {"text": "hm", "thought": True, "thoughtSignature": "s"},
                    {"text": "let me see"},
                    {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "t"},
                    {"functionCall": {"name": "g", "args": {}, "id": "x"}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "f", "response": {"output": '{"b": 2}'}}},
                    {"inlineData": {"mimeType": "image/png", "data": "BBBB"}},
                    {
                        "functionResponse": {
                            "name": "g",
                            "id": "x",
                            "response": {"error": "no such thing"},
                        }
                    },
                ],
            },
        ],
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "f",
                        "description": "does it",
                        "parametersJsonSchema": dict(SPEC.parameters),
                    }
                ]
            }
        ],
        "generationConfig": {"temperature": 0.0, "maxOutputTokens": 9, "stopSequences": ["END"]},
    }


def encoded(*messages, **more):
    return gemini.encode(ChatRequest("m", messages, **more))


def test_options_that_are_not_set_are_omitted():
    assert encoded() == {"contents": []}


def test_the_path_has_the_model_and_the_method():
    assert gemini.path("gemini-3-pro") == "/models/gemini-3-pro:generateContent"
    assert gemini.path("../../v1/x") == "/models/..%2F..%2Fv1%2Fx:generateContent"
    assert gemini.path("a?b", stream=True) == "/models/a%3Fb:streamGenerateContent?alt=sse"


@for_each(
    "choice, expected",
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("a.b", {"mode": "ANY", "allowedFunctionNames": [sent_name("a.b")]}),
    ],
)
def test_a_tool_choice_is_translated_to_the_format(choice, expected):
    assert encoded(tool_choice=choice)["toolConfig"] == {"functionCallingConfig": expected}


def test_a_schema_is_encoded_and_merged_with_provider_options():
    options = {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}
    assert encoded(response_schema={"type": "object"}, provider_options=options)[
        "generationConfig"
    ] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
        "thinkingConfig": {"thinkingBudget": 0},
    }


def test_parts_that_the_format_does_not_accept_are_omitted():
    """Empty texts, thinking and parts of other providers, and messages that are then empty."""
    nothing = (
        ThinkingPart("hm"),
        TextPart(""),
        ProviderPart("anthropic", {"type": "mcp_tool_use"}),
    )
    messages = (Message.user(""), Message.assistant(nothing), Message.user("hi"))
    assert encoded(*messages)["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]


def test_a_signature_on_an_empty_text_and_own_parts_are_sent_back_unchanged():
    signed = TextPart("", provider_data={"gemini": {"thoughtSignature": "s"}, "openai": {"x": 1}})
    own = ProviderPart("gemini", {"executableCode": {"code": "1"}})
    assert encoded(Message.assistant((signed, own)))["contents"][0]["parts"] == [
        {"text": "", "thoughtSignature": "s"},
        {"executableCode": {"code": "1"}},
    ]


@for_each("name, sent", [("f", "f"), (None, "unknown")])
def test_a_result_without_its_call_in_the_history_is_sent_with_its_own_name(name, sent):
    (content,) = encoded(Message.tool("a", "1", name=name))["contents"]
    assert content["parts"] == [{"functionResponse": {"name": sent, "response": {"output": "a"}}}]
