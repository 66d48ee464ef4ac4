from stage0_gateway import Message, ToolCall, ToolSpec
from stage3_tools import RequestParts
from tests.stage3_tools.conversation import DONE, Native, Recorder


class WithTools(Native):
    """A minimal dialect that sends the tools."""

    def render(self, transcript, registry, *, last=False):
        specs = [
            ToolSpec(each.name, each.description, each.parameters or {}) for each in registry.list()
        ]
        return RequestParts(tuple(transcript), tuple(specs))


def test_request_parts_have_no_tools_by_default():
    assert RequestParts((Message.user("hi"),)).tools == ()


async def test_the_loop_accepts_any_dialect_that_implements_the_protocol(new_conversation):
    recorder = Recorder()
    asks = Message.assistant("", [ToolCall("c1", "f", '{"x": 1}')])
    conversation = new_conversation([asks, "done"], recorder.tool)
    result = await conversation.ask(dialect=WithTools())
    assert (result.reply, result.tool_rounds, recorder.seen) == ("done", 1, [{"x": 1}])
    assert [request.tools for request in conversation.model.requests] == [
        (ToolSpec("f", "notes", {}),)
    ] * 2
    assert await conversation.history() == [
        Message.user("Go."),
        asks,
        Message.tool("ok", "c1", name="f"),
        Message.assistant("done"),
    ]


async def test_a_session_can_change_its_dialect_between_two_questions(new_conversation):
    asks = Message.assistant("", [ToolCall("c1", "f", '{"x": 1}')])
    conversation = new_conversation([asks, "sun", DONE, "bye"], Recorder().tool)
    await conversation.ask("one", dialect=WithTools())
    await conversation.ask("two")
    await conversation.ask("three", dialect=WithTools())
    assert conversation.seen[2][1:] == [
        ("user", "one"),
        ("assistant", '{"tool": "f", "arguments": {"x": 1}}'),
        ("user", "[Tool result for f]\nok"),
        ("assistant", '{"tool": null, "reply": "sun"}'),
        ("user", "two"),
    ]
    assert conversation.seen[3][-2:] == [("assistant", "done"), ("user", "three")]
    assert await conversation.problems() == []
