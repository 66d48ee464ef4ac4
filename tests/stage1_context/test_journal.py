import dataclasses
import json

import pytest

from stage0_gateway import ImagePart, Message, TextPart, ToolCall
from stage1_context import MessageRecord
from stage1_context.journal import record_from_dict

MESSAGES = {
    "system": Message.system("Be brief."),
    "parts": Message.user((TextPart("What is this?"), ImagePart(url="https://example.com/cat.png"))),
    "calls": Message.assistant("", [ToolCall("a", "f", '{"x": 1}')], raw_text='{"tool": "f"}'),
    "failed result": Message.tool("no such city", "a", is_error=True, name="f"),
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_a_record_survives_json(message):
    record = MessageRecord(message)
    assert record_from_dict(json.loads(json.dumps(record.to_dict()))) == record


def test_a_saved_record_says_its_kind_and_leaves_out_defaults():
    assert MessageRecord(Message.user("hi")).to_dict() == {"kind": "message", "role": "user", "content": "hi"}


@pytest.mark.parametrize("plain", [{"kind": "variable"}, {"role": "user", "content": "hi"}])
def test_a_record_of_an_unknown_kind_is_refused_with_the_kinds_there_are(plain):
    with pytest.raises(ValueError, match=f"Unknown journal record {plain.get('kind')!r}.*'message'"):
        record_from_dict(plain)


def test_a_record_cannot_be_changed():
    record = MessageRecord(Message.user("hi"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.message = Message.user("other")
