import json

from stage0_gateway.messages import Message
from stage0_gateway.parts import (
    DocumentPart,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage0_gateway.request import ToolSpec
from stage0_gateway.response import ChatResponse, Usage
from stage0_gateway.server.gemini import decode_request, encode_error, encode_reply, encode_stream
from tests.stage0_gateway.server.formats import GEMINI
from tests.stage0_gateway.server.strategies.gemini import own
from tests.tables import for_each

# ---- replies


def test_a_reply_to_a_blocked_prompt_has_no_candidates_in_a_body_and_in_a_stream():
    reply = ChatResponse(Message.assistant(""), "refusal", block_reason="SAFETY", usage=Usage(3))
    assert encode_reply(reply) == {
        "promptFeedback": {"blockReason": "SAFETY"},
        "usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 3},
    }
    assert GEMINI.read_body(reply) == reply
    assert GEMINI.read_stream(reply) == reply


def test_each_event_has_one_part_and_the_last_event_has_the_usage_and_the_finish_reason():
    call = ToolCall("1", "f", '{"a": 1}', own(thoughtSignature="s"))
    message = Message.assistant((ThinkingPart("hm"), TextPart("Hello.")), [call])
    reply = ChatResponse(message, usage=Usage(3, 8, 1, 2), model="m", request_id="r")
    chunks = [json.loads(event.removeprefix("data: ")) for event in encode_stream(reply, piece=5)]
    assert [chunk["candidates"][0]["content"]["parts"] for chunk in chunks] == [
        [{"text": "hm", "thought": True}],
        [{"text": "Hello"}],
        [{"text": "."}],
        [{"functionCall": {"name": "f", "args": {"a": 1}, "id": "1"}, "thoughtSignature": "s"}],
    ]
    assert chunks[-1]["usageMetadata"] == {
        "promptTokenCount": 3,
        "candidatesTokenCount": 8,
        "cachedContentTokenCount": 1,
        "thoughtsTokenCount": 2,
        "totalTokenCount": 13,
    }
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"
    assert {chunk["modelVersion"] + chunk["responseId"] for chunk in chunks} == {"mr"}


def test_a_signed_text_is_not_split():
    reply = ChatResponse(Message.assistant((TextPart("Hello.", (), own(thoughtSignature="s")),)))
    (event,) = encode_stream(reply, piece=2)
    parts = json.loads(event.removeprefix("data: "))["candidates"][0]["content"]["parts"]
    assert parts == [{"text": "Hello.", "thoughtSignature": "s"}]


@for_each(
    "reply, reason",
    [
        (ChatResponse(Message.assistant("a")), "STOP"),
        (ChatResponse(Message.assistant("", [ToolCall("1", "f")])), "STOP"),
        (ChatResponse(Message.assistant("a"), finish_reason="length"), "MAX_TOKENS"),
        (ChatResponse(Message.assistant("a"), finish_reason="refusal"), "SAFETY"),
        (ChatResponse(Message.assistant("a"), finish_reason="error"), "MALFORMED_FUNCTION_CALL"),
        (ChatResponse(Message.assistant("a"), raw_finish_reason="SOMETHING_NEW"), "SOMETHING_NEW"),
    ],
)
def test_the_finish_reason_is_translated_to_geminis_finish_reason(reply, reason):
    assert encode_reply(reply)["candidates"][0]["finishReason"] == reason


def test_an_error_has_googles_shape():
    error = {"code": 400, "message": "No.", "status": "INVALID_ARGUMENT"}
    assert encode_error(400, "No.") == {"error": error}
    assert encode_error(503, "No.") == {"error": error | {"code": 503, "status": "UNAVAILABLE"}}
    assert encode_error(529, "No.") == {"error": error | {"code": 529, "status": "INTERNAL"}}


# ---- requests


def test_an_object_instead_of_a_list_with_one_element_is_accepted():
    schema = {"type": "object"}
    body = {
        "systemInstruction": {"parts": {"text": "s"}},
        "contents": {
            "parts": [
                {"inlineData": {"mimeType": "image/png", "data": "QQ=="}},
                {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://x"}},
            ]
        },
        "tools": {"functionDeclarations": {"name": "f", "parameters": schema}},
    }
    read = decode_request(body)
    assert read.messages == (
        Message.system("s"),
        Message.user(
            (
                ImagePart("QQ=="),
                DocumentPart(media_type="video/mp4", url="gs://x"),
            )
        ),
    )
    assert read.tools == (ToolSpec("f", "", schema),)


@for_each(
    "path, model",
    [
        ("/v1beta/models/gemini-x:generateContent", "gemini-x"),
        ("/v1/projects/p/publishers/google/models/g:streamGenerateContent?alt=sse", "g"),
        ("/v1beta/models/a%2Fb%3Ac:generateContent", "a/b:c"),
    ],
)
def test_the_model_is_read_from_the_path(path, model):
    assert decode_request({"contents": []}, path).model == model


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
