import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_stages.testing.stores import nested
from stage0_gateway import (
    DocumentPart,
    ImagePart,
    JsonPart,
    Message,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage1_context.journal import (
    CONTROL_KINDS,
    VIEW_KINDS,
    ApprovalPendingRecord,
    CallFinishedRecord,
    CallStartedRecord,
    MessageRecord,
    RepairRecord,
    SummaryRecord,
    VariableDeletedRecord,
    VariableRecord,
    record_from_json,
    record_to_json,
)
from tests.random_values import json_values
from tests.tables import for_each

PARTS = (
    TextPart("What is this?", provider_data={"anthropic": {"cache": True}}),
    ThinkingPart("hm", provider_data={"anthropic": {"signature": "x="}}),
    JsonPart({"é": [1, None, 2.5]}),
    ImagePart(url="https://example.com/cat.png"),
    DocumentPart("cGRm", name="a.pdf"),
    ProviderPart("gemini", {"executableCode": {"code": "1"}}),
)
RECORDS = {
    "system message": MessageRecord(Message.system("Be brief.")),
    "parts": MessageRecord(Message.user(PARTS)),
    "calls": MessageRecord(
        Message.assistant(
            "", [ToolCall("a", "f", '{"x": 1}'), ToolCall("b", "g")], raw_text='{"tool": "f"}'
        )
    ),
    "failed result": MessageRecord(Message.tool("no such city", "a", is_error=True, name="f")),
    "result with details": MessageRecord(
        Message.tool("22", "a"), {"log": ["x", 1, None, "\ud83d"]}
    ),
    "details that are false": MessageRecord(Message.tool("22", "a"), False),
    "lone surrogate": MessageRecord(Message.user("cut \ud83d")),
    "lone surrogate beside a whole character": MessageRecord(Message.user("北京 \ude00 😀")),
    "zero character": MessageRecord(Message.user("a\0b")),
    "call started": CallStartedRecord("a", "f"),
    "call finished": CallFinishedRecord("a", "completed"),
    "call finished with details": CallFinishedRecord(
        "a", "completed", Message.tool("22", "a"), {"log": "x"}
    ),
    "approval pending": ApprovalPendingRecord("a", "f", '{"x": 1}'),
    "summary": SummaryRecord("They talked about 北京.", 7),
    "removed summary": SummaryRecord(""),
    "repair": RepairRecord(
        ((1, Message.tool("gone", "a", is_error=True)), (1, Message.user(PARTS))), (2, 3)
    ),
    "repair of nothing": RepairRecord(),
    "variable": VariableRecord({"a": [1, 2.5, None, True, "\ud83d\0"]}),
    "null": VariableRecord(None),
    "variable deleted": VariableDeletedRecord("var_7"),
    "large number": VariableRecord(10**4000),
}


@for_each("record", RECORDS.values())
def test_a_record_is_restored_from_json(record):
    assert record_from_json(record_to_json(record)) == record


@for_each("record", RECORDS.values())
def test_every_record_is_one_line_of_encodable_json(record):
    text = record_to_json(record)
    assert "\n" not in text
    assert "\0" not in text
    assert text.encode().decode() == text


def test_the_records_above_include_every_kind():
    with pytest.raises(ValueError, match="this version knows") as caught:
        record_from_json("{}")
    known = str(caught.value).rpartition("knows ")[2].rstrip(".").split(", ")
    assert {record.kind for record in RECORDS.values()} | {"message"} == set(known)


@given(json_values(st.text()), st.text(st.characters(), max_size=20), st.integers())
def test_records_with_any_value_text_and_number_are_restored_from_json(value, text, number):
    message = Message.assistant(text, [ToolCall("a", "f", text or "{}")], raw_text=text or None)
    repair = RepairRecord(((number, message),), (number,))
    for record in (
        VariableRecord(value),
        SummaryRecord(text, number),
        MessageRecord(message),
        repair,
    ):
        assert record_from_json(record_to_json(record)) == record


def test_a_record_as_json_has_its_kind_and_omits_default_fields():
    assert [
        json.loads(record_to_json(record))
        for record in (RECORDS["system message"], CallStartedRecord("a", "f"))
    ] == [
        {"kind": "system", "role": "system", "content": "Be brief."},
        {"kind": "call_started", "call_id": "a", "tool": "f"},
    ]
    assert record_to_json(MessageRecord(Message.user("北京"))) == (
        '{"kind": "message", "role": "user", "content": "北京"}'
    )


def test_details_are_an_optional_field():
    record = MessageRecord(Message.tool("22", "a"), {"log": "x"})
    text = record_to_json(record)
    assert json.loads(text).pop("details") == {"log": "x"}
    without = text.replace(', "details": {"log": "x"}', "")
    assert record_from_json(without) == MessageRecord(Message.tool("22", "a"))
    assert "log" not in repr(record)


def test_system_messages_and_calls_have_their_own_record_kinds():
    call = Message.assistant("", [ToolCall("a", "f")])
    messages = [
        Message.system(""),
        Message.user(""),
        Message.assistant(""),
        call,
        Message.tool("", "a"),
    ]
    kinds = [MessageRecord(message).kind for message in messages]
    assert kinds == ["system", "message", "message", "call", "message"]
    assert set(VIEW_KINDS) == {"message", "call", *CONTROL_KINDS}


@for_each(
    "data, reason",
    [
        (
            {"role": "user", "content": "hi"},
            "Unknown journal record None; this version knows message, call, system",
        ),
        ({"kind": "dream"}, "Unknown journal record 'dream'"),
        ({"kind": ["message"]}, r"Unknown journal record \['message'\]"),
        ([], "a JSON object, not list"),
        (None, "a JSON object, not NoneType"),
        ({"kind": "message"}, "Unknown role None"),
        ({"kind": "message", "role": "boss"}, "Unknown role 'boss'"),
        ({"kind": "message", "role": "user", "content": 5}, "text or parts, not int"),
        ({"kind": "message", "role": "tool", "content": ""}, "needs the tool_call_id"),
        ({"kind": "summary"}, r"Invalid 'summary' record; its fields are \['text', 'until'\]"),
        ({"kind": "variable"}, r"its fields are \['value'\]"),
        ({"kind": "summary", "text": "", "til": 3}, r"its fields are \['text', 'until'\]"),
        ({"kind": "call_started", "tool": "f"}, r"its fields are \['call_id', 'tool'\]"),
        (
            {"kind": "repair", "shown": []},
            r"its fields are \['inserted', 'hidden'\]",
        ),
        ({"kind": "repair", "inserted": 5}, "Invalid 'repair' record"),
        ({"kind": "repair", "inserted": [5]}, "Invalid 'repair' record"),
        ({"kind": "repair", "inserted": [[0, "hi"]]}, "A message must be a JSON object, not str"),
        ({"kind": "repair", "inserted": [[0, {"role": "boss"}]]}, "Unknown role 'boss'"),
        ({"kind": "repair", "hidden": None}, "Invalid 'repair' record"),
    ],
)
def test_an_invalid_record_raises_an_error_with_the_reason(data, reason):
    with pytest.raises(ValueError, match=reason):
        record_from_json(json.dumps(data))


@for_each("text", ["", "{", "no", '{"kind": "variable", "value": ' + "[" * 200_000])
def test_invalid_json_raises_a_value_error(text):
    with pytest.raises(ValueError, match="A journal record must be JSON text: "):
        record_from_json(text)


CIRCLE: list = []
CIRCLE.append(CIRCLE)
DEEP = nested(200_000)


@for_each(
    "record",
    [
        VariableRecord(math.nan),
        VariableRecord([math.inf, "\ud83d"]),
        MessageRecord(Message.user((JsonPart(-math.inf),))),
        VariableRecord({1, 2}),
        VariableRecord(b"bytes"),
        VariableRecord({(1, 2): 3}),
        VariableRecord(10**5000),
        VariableRecord(CIRCLE),
        VariableRecord(DEEP),
        MessageRecord(Message.user((JsonPart(object()),))),
        MessageRecord(Message.user((ProviderPart("gemini", {"a": b"bytes"}),))),
        RepairRecord(((0, Message.user((JsonPart(DEEP),))),)),
    ],
)
def test_a_record_that_is_not_json_raises_a_value_error_that_names_its_kind(record):
    with pytest.raises(
        ValueError, match=f"This {record.kind!r} record cannot be written as JSON: "
    ):
        record_to_json(record)


def test_a_circular_mapping_in_a_message_raises_a_value_error():
    circle = {}
    circle["again"] = circle
    with pytest.raises(ValueError, match="This 'message' record cannot be written as JSON: "):
        record_to_json(MessageRecord(Message.user((JsonPart(circle),))))


@for_each("call", [ToolCall("", "f"), ToolCall("a", "")])
def test_a_call_without_an_id_or_a_name_is_stored_unchanged(call):
    record = MessageRecord(Message.assistant("", [call]))
    assert record_from_json(record_to_json(record)) == record


@for_each("record", RECORDS.values())
def test_a_record_cannot_be_changed(record):
    name = dataclasses.fields(record)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record, name, "other")
