from stage0_gateway.server.gemini import decode_request
from stage0_gateway.server.gemini_spellings import json_schema
from tests.tables import for_each

CAMEL_CASE = {
    "contents": [
        {"parts": [{"inlineData": {"mimeType": "image/png", "data": "QQ=="}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"my_key": 1}}}]},
        {"parts": [{"functionResponse": {"name": "f", "response": {"my_value": 2}}}]},
    ],
    "systemInstruction": {"parts": [{"text": "s"}]},
    "tools": [
        {
            "functionDeclarations": [
                {"name": "f", "parametersJsonSchema": {"properties": {"my_key": {}}}}
            ]
        }
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
    "generationConfig": {
        "maxOutputTokens": 9,
        "stopSequences": ["x_y"],
        "responseJsonSchema": {"properties": {"my_key": {}}},
        "thinkingConfig": {"thinkingBudget": 1024},
    },
}
SNAKE_CASE = {
    "contents": [
        {"parts": [{"inline_data": {"mime_type": "image/png", "data": "QQ=="}}]},
        {"role": "model", "parts": [{"function_call": {"name": "f", "args": {"my_key": 1}}}]},
        {"parts": [{"function_response": {"name": "f", "response": {"my_value": 2}}}]},
    ],
    "system_instruction": {"parts": [{"text": "s"}]},
    "tools": [
        {
            "function_declarations": [
                {"name": "f", "parameters_json_schema": {"properties": {"my_key": {}}}}
            ]
        }
    ],
    "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["f"]}},
    "generation_config": {
        "max_output_tokens": 9,
        "stop_sequences": ["x_y"],
        "response_json_schema": {"properties": {"my_key": {}}},
        "thinking_config": {"thinking_budget": 1024},
    },
}


def test_both_spellings_of_the_fields_are_the_same_request() -> None:
    request = decode_request(SNAKE_CASE)
    assert request == decode_request(CAMEL_CASE)
    assert request.messages[2].tool_calls[0].arguments == '{"my_key": 1}'
    assert request.messages[3].text == '{"my_value": 2}'
    assert request.tools[0].parameters == request.response_schema
    assert (request.tool_choice, request.max_tokens, request.stop) == ("f", 9, ("x_y",))
    assert request.response_schema == {"properties": {"my_key": {}}}


@for_each(
    "schema, expected",
    [
        ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "STRING", "nullable": False}, {"type": "string"}),
        (
            {"type": "STRING", "enum": ["OBJECT"], "nullable": True},
            {"type": ["string", "null"], "enum": ["OBJECT", None]},
        ),
        (
            {"any_of": [{"type": "STRING"}, {"type": "INTEGER"}], "nullable": True},
            {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        ),
        (
            {"type": "ARRAY", "items": {"type": "NUMBER"}, "min_items": "1", "maxItems": 3},
            {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 3},
        ),
        (
            {"type": "OBJECT", "properties": {"type": {"type": "BOOLEAN"}, "my_key": {}}},
            {"type": "object", "properties": {"type": {"type": "boolean"}, "my_key": {}}},
        ),
        ({"type": "TYPE_UNSPECIFIED", "title": "TITLE"}, {"title": "TITLE"}),
        ({"type": "ARRAY", "items": True}, {"type": "array", "items": True}),
        (
            {"$defs": {"A": {"type": ["STRING", "NULL"]}}, "items": {"$ref": "#/$defs/A"}},
            {"$defs": {"A": {"type": ["string", "null"]}}, "items": {"$ref": "#/$defs/A"}},
        ),
    ],
)
def test_a_schema_of_googles_becomes_a_json_schema(schema, expected) -> None:
    assert json_schema(schema) == expected
    assert json_schema(expected) == expected
