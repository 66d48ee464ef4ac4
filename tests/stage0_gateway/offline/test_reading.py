import json

import pytest

from stage0_gateway.messages import Message, ToolCall
from stage0_gateway.offline.outcomes import Outcome
from stage0_gateway.offline.reading import read
from stage0_gateway.request import ChatRequest, ToolSpec

LINE = json.dumps({"name": "get_time", "description": "Tell the time."})
FORMAT = 'Answer with {"tool": name, "arguments": {...}}.'
TIME = ToolSpec("get_time", "Tell the time.", {})


def test_native_tools_and_their_results_are_seen() -> None:
    messages = (
        Message.user("Time?"),
        Message.assistant("", [ToolCall("call_4", "get_time", '{"zone": "UTC"}')]),
        Message.tool("12:30", "call_4"),
    )
    reading = read(ChatRequest("m", messages, (TIME,)))
    assert (reading.way, reading.tools, reading.question, reading.next_id) == ("native", (TIME,), "Time?", 5)
    assert reading.outcomes == (Outcome("get_time", {"zone": "UTC"}, "12:30"),)


def test_tools_decisions_and_results_are_read_from_a_prompt() -> None:
    messages = (
        Message.system(f"You may use tools.\n{LINE}\n{FORMAT}"),
        Message.user("Time?"),
        Message.assistant('{"tool": "get_time", "arguments": {}}'),
        Message.user("[Tool result for get_time]\nError: no clock"),
    )
    reading = read(ChatRequest("m", messages))
    assert (reading.way, reading.tools, reading.question) == ("decision", (TIME,), "Time?")
    assert reading.outcomes == (Outcome("get_time", {}, "Error: no clock", True),)


def test_several_results_in_one_message_are_taken_apart() -> None:
    said = "[Tool result for a]\n1\n\n[Tool result for b]\n2"
    reading = read(ChatRequest("m", (Message.user("Go"), Message.user(said))))
    assert reading.outcomes == (Outcome("a", {}, "1"), Outcome("b", {}, "2"))


def test_feedback_is_not_a_question_and_leaves_its_call_without_a_result() -> None:
    messages = (
        Message.system(FORMAT),
        Message.user("Time?"),
        Message.assistant('{"tool": "clock", "arguments": {"x": 1}}'),
        Message.user("[Feedback]\nUnknown tool."),
    )
    reading = read(ChatRequest("m", messages))
    assert (reading.question, reading.feedback) == ("Time?", "Unknown tool.")
    assert reading.outcomes == (Outcome("clock", {"x": 1}, None),)


def test_only_what_follows_the_last_question_counts() -> None:
    messages = (
        Message.user("One"),
        Message.assistant("", [ToolCall("call_1", "a")]),
        Message.tool("x", "call_1"),
        Message.user("Two"),
    )
    reading = read(ChatRequest("m", messages))
    assert (reading.question, reading.outcomes, reading.last_tool, reading.next_id) == ("Two", (), "a", 2)


def test_a_schema_in_a_line_of_the_question_is_taken_out_of_it() -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"a": {}}}
    reading = read(ChatRequest("m", (Message.user(f"Ada is 36.\n{json.dumps(schema)}"),)))
    assert (reading.schema, reading.question) == (schema, "Ada is 36.")


def test_the_schema_of_a_decision_is_a_way_to_answer_not_a_form() -> None:
    schema: dict[str, object] = {"properties": {"tool": {}, "arguments": {}, "reply": {}}}
    reading = read(ChatRequest("m", (Message.user("Hi"),), response_schema=schema))
    assert (reading.way, reading.schema) == ("decision", None)


SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"tool": {"type": "string"}},
    "required": ["tool"],
}
LIST: dict[str, object] = {"type": "array", "items": {"type": "integer"}}
NODE: dict[str, object] = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object"}}}


@pytest.mark.parametrize("schema", [SCHEMA, LIST, NODE, {"type": "integer", "minimum": 1}])
def test_a_schema_told_by_the_system_is_a_form(schema: dict[str, object]) -> None:
    messages = (Message.system(f"Answer by this:\n{json.dumps(schema)}"), Message.user("Hi"))
    reading = read(ChatRequest("m", messages))
    assert (reading.way, reading.schema) == ("text", schema)
    both = read(ChatRequest("m", messages, response_schema={"type": "object"}))
    assert (both.way, both.schema) == ("text", {"type": "object"})


@pytest.mark.parametrize(
    "line", ['{"type": "text"}', '{"type": "integer", "value": 3}', '{"a": 1}', "{}", "{", "[]"]
)
def test_json_that_is_no_schema_belongs_to_the_question(line: str) -> None:
    reading = read(ChatRequest("m", (Message.user(f"What is this?\n{line}"),)))
    assert (reading.schema, reading.question) == (None, f"What is this?\n{line}")
