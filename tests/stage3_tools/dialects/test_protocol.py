from stage0_gateway import Message, ToolCall, ToolSpec
from stage3_tools import FinalReply, RequestParts, ToolCalls
from tests.stage3_tools.conversation import DONE, Recorder


class Native:
    """A minimal dialect of native tool calls."""

    def describe(self, registry):
        return ""

    def render(self, transcript, registry, *, last=False):
        specs = [
            ToolSpec(each.name, each.description, each.parameters or {}) for each in registry.list()
        ]
        return RequestParts(tuple(transcript), tuple(specs))

    def read(self, response, registry):
        return ToolCalls(response.message) if response.tool_calls else FinalReply(response.message)


def test_request_parts_have_no_tools_by_default():
    assert RequestParts((Message.user("hi"),)).tools == ()


async def test_the_loop_accepts_any_dialect_that_implements_the_protocol(new_conversation):
    recorder = Recorder()
    asks = Message.assistant("", [ToolCall("c1", "f", '{"x": 1}')])
    conversation = new_conversation([asks, "done"], recorder.tool)
    result = await conversation.ask(dialect=Native())
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
    await conversation.ask("one", dialect=Native())
    await conversation.ask("two")
    await conversation.ask("three", dialect=Native())
    assert conversation.seen[2][1:] == [
        ("user", "one"),
        ("assistant", '{"tool": "f", "arguments": {"x": 1}}'),
        ("user", "[Tool result for f]\nok"),
        ("assistant", '{"tool": null, "reply": "sun"}'),
        ("user", "two"),
    ]
    assert conversation.seen[3][-2:] == [("assistant", "done"), ("user", "three")]
    assert await conversation.problems() == []
