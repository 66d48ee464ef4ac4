"""For any reply, the run ends, only permitted tools run, and every call has one result."""

import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stage0_gateway import ChatResponse, Gateway, Message, ScriptedModel
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import Tool, ToolLoopDeps, ToolLoopOptions, ToolRegistry, run_tool_loop
from tests.stage3_tools.conversation import DONE

pytestmark = pytest.mark.long

SCHEMAS = {
    "add": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "minimum": 0}},
        "required": ["a"],
        "additionalProperties": False,
    },
    "note": {"type": "object", "properties": {"text": {"type": "string", "maxLength": 3}}},
}
ENDINGS = {"completed", "max_rounds", "parse_failed"}

values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)
arguments = st.fixed_dictionaries(
    {},
    optional={
        "a": st.integers() | values,
        "b": st.integers() | values,
        "text": st.text(max_size=5) | values,
    },
)
decisions = st.fixed_dictionaries(
    {"tool": st.sampled_from(["add", "add", "note", "sub"]) | st.none() | values},
    optional={"arguments": arguments | values, "reply": st.text() | values},
)
calls = st.builds(
    lambda tool, given: {"tool": tool, "arguments": given},
    st.sampled_from(["add", "note"]),
    arguments,
)
written = st.builds(
    lambda decision, ascii: json.dumps(decision, ensure_ascii=ascii),
    decisions | calls,
    st.booleans(),
)
wrapped = st.builds(
    lambda frame, text: frame.replace("@", text),
    st.sampled_from(
        [
            "@",
            "@",
            "Sure: @ ok?",
            "```json\n@\n```",
            "<think>@</think>",
            "@@",
            "[@]",
            "<think>@</think>@",
        ]
    ),
    written,
)
cut = st.builds(lambda text, at: text[: len(text) * at // 10], wrapped, st.integers(1, 9))
replies = st.lists(st.text() | wrapped | wrapped | cut, min_size=1, max_size=4)
reasons = st.sampled_from(
    ["stop", "stop", "length", "tool_calls", "unknown", "error", "pause", "refusal"]
)


class Watched:
    """Two tools, and a list of violations since `begin()`."""

    def __init__(self):
        self.registry = ToolRegistry(*(self._tool(name) for name in SCHEMAS))
        self.output = OutputController()

    def begin(self):
        self.wrong = []
        self.runs = 0
        self.finish_reason = "stop"

    def _tool(self, name):
        validator = jsonschema.Draft202012Validator(SCHEMAS[name])

        async def execute(given):
            self.runs += 1
            if not validator.is_valid(given):
                self.wrong.append(f"{name} was run with {given!r}")
            if self.finish_reason in ("length", "refusal", "pause"):
                self.wrong.append(
                    f"{name} was run although the reply ended for {self.finish_reason}"
                )
            return given

        return Tool(name, "", SCHEMAS[name], execute)

    async def ask(self, model, rounds):
        engine = ContextEngine()
        await engine.create_session("s")
        deps = ToolLoopDeps(model, engine, self.output, self.registry)
        result = await run_tool_loop(deps, "s", "Go.", ToolLoopOptions(max_tool_rounds=rounds))
        return result, await engine.history("s")

    def check(self, result, history, endings):
        assert self.wrong == []
        assert result.status in endings
        assert history.check_history() == []
        assert self.runs == sum(record.result.attempts for record in result.history)
        calls = [call.id for message in history for call in message.tool_calls]
        assert calls == [record.id for record in result.history]


@pytest.fixture(scope="module")
def watched():
    return Watched()


@settings(max_examples=150)
@given(texts=replies, rounds=st.integers(0, 3))
async def test_any_reply_text_leaves_a_known_status_and_a_valid_history(watched, texts, rounds):
    watched.begin()
    model = ScriptedModel([*texts, DONE])
    async with Gateway("openai:m", transport=model) as gateway:
        result, history = await watched.ask(gateway, rounds)
        while len(model.requests) <= len(texts):  # the run ended early: use the remaining replies
            await gateway.chat([Message.user("?")])
    watched.check(result, history, ENDINGS)


@settings(max_examples=200)
@given(
    given_replies=st.lists(
        st.tuples(replies.map(lambda texts: texts[0]), reasons), min_size=1, max_size=4
    ),
    rounds=st.integers(0, 3),
)
async def test_any_finish_reason_leaves_a_known_status_and_a_valid_history(
    watched, given_replies, rounds
):
    watched.begin()
    left = iter([*given_replies, (DONE, "stop")])

    async def chat(messages, **settings):
        text, watched.finish_reason = next(left)
        return ChatResponse(Message.assistant(text), watched.finish_reason)

    result, history = await watched.ask(chat, rounds)
    watched.check(result, history, {*ENDINGS, "refused", "limit"})
