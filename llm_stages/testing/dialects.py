"""`DialectContract`: tests of the promises of `Dialect`.

Covered: messages of requests, replies of the model, whole runs, and sessions that change their
dialect. Not covered: replies of a type (`OutputDialect`), and how well a model follows the dialect.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stage0_gateway import (
    ChatResponse,
    Message,
    ToolCall,
    Usage,
)
from stage1_context import (
    ContextEngine,
    MessageHistory,
)
from stage3_tools import (
    LAST_REQUEST,
    Dialect,
    FinalReply,
    InvalidReply,
    NativeDialect,
    PromptDialect,
    RequestParts,
    Tool,
    ToolCalls,
    ToolLoopDeps,
    ToolRegistry,
    run_tool_loop,
)

ReplyOf = Callable[[Message], ChatResponse]

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
CALL = ToolCall("call_1", "get_weather", '{"city": "Ro\\"me\\n"}')
HISTORY = (
    Message.system("Be brief."),
    Message.user("How is the weather?"),
    Message.assistant("I will look.", [CALL]),
    Message.tool("22 degrees", "call_1", name="get_weather"),
    Message.assistant("It is warm."),
    Message.user("And tomorrow?"),
)


def registry_of(execute: Callable[[dict[str, Any]], str] = lambda _: "ok") -> ToolRegistry:
    """Return a registry with one tool that reads."""
    description = "Get the weather in a city."
    return ToolRegistry(Tool("get_weather", description, WEATHER, execute, effect="read"))


def texts_of(parts: RequestParts) -> str:
    """Return everything that a request states in its messages."""
    calls = [call for message in parts.messages for call in message.tool_calls]
    texts = [message.text for message in parts.messages]
    return "\n".join([*texts, *(f"{call.name} {call.arguments}" for call in calls)])


def decision_of(message: Message) -> ChatResponse:
    """Return the reply of a model that follows `PromptDialect` and means a message."""
    decision: dict[str, Any] = {"tool": None, "reply": message.text}
    for call in message.tool_calls:
        decision = {"tool": call.name, "arguments": json.loads(call.arguments)}
    return ChatResponse(Message.assistant(json.dumps(decision)))


class Model:
    """A model that means these messages, in order, and records the texts of its requests."""

    def __init__(self, reply_of: ReplyOf, *messages: Message) -> None:
        self.requests: list[str] = []
        self._replies = map(reply_of, messages)

    async def chat(self, messages: Sequence[Message], **_: Any) -> ChatResponse:
        """Return the next reply."""
        self.requests.append(texts_of(RequestParts(tuple(messages))))
        return next(self._replies)


class DialectContract:
    """Tests of the promises of `Dialect`.

    A subclass defines two fixtures: `dialect`, and `reply_of`, a function that returns the reply of
    a model that follows the dialect and means a message. The message has either a text for the user
    or tool calls. For native tool calls, `reply_of` is `ChatResponse`.
    """

    @pytest.fixture
    def dialect(self) -> Dialect:
        """Return the dialect; a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} needs the fixture dialect.")

    @pytest.fixture
    def reply_of(self) -> ReplyOf:
        """Return a function that returns the reply for a message; a subclass defines it."""
        raise NotImplementedError(
            f"{type(self).__name__} needs the fixture reply_of: a function that returns the "
            "ChatResponse of a model that means a message."
        )

    # ---- describe and render

    def test_a_request_or_its_messages_describe_every_tool(self, dialect: Dialect) -> None:
        registry = registry_of()
        parts = dialect.render(HISTORY, registry)
        described = [spec.name for spec in parts.tools] or texts_of(parts)
        assert "get_weather" in described
        assert "Get the weather in a city." in dialect.describe(registry)

    def test_the_same_history_is_rendered_to_the_same_request(self, dialect: Dialect) -> None:
        registry = registry_of()
        assert dialect.describe(registry) == dialect.describe(registry)
        assert dialect.render(HISTORY, registry) == dialect.render(list(HISTORY), registry)

    def test_rendering_does_not_change_the_history(self, dialect: Dialect) -> None:
        history = list(HISTORY)
        before = [message.to_dict() for message in history]
        dialect.render(history, registry_of())
        assert [message.to_dict() for message in history] == before
        assert all(map(lambda one, other: one is other, history, HISTORY))

    def test_a_request_contains_the_whole_history(self, dialect: Dialect) -> None:
        texts = texts_of(dialect.render(HISTORY, ToolRegistry()))
        for message in HISTORY:
            assert message.tool_calls or message.text in texts
        assert "get_weather" in texts

    def test_the_messages_of_a_request_are_a_valid_conversation(self, dialect: Dialect) -> None:
        for last in (False, True):
            messages = dialect.render(HISTORY, registry_of(), last=last).messages
            assert MessageHistory(messages).check_history() == []
            assert [message.role for message in messages].count("system") <= 1

    def test_the_final_request_allows_no_calls_and_requests_a_reply(self, dialect: Dialect) -> None:
        parts = dialect.render(HISTORY, registry_of(), last=True)
        assert parts.tools == () or parts.tool_choice == "none"
        assert LAST_REQUEST in texts_of(parts)

    def test_without_tools_a_request_lists_none(self, dialect: Dialect) -> None:
        parts = dialect.render(HISTORY[:2], ToolRegistry())
        assert parts.tools == ()
        assert "get_weather" not in texts_of(parts)

    # ---- read

    def test_a_text_is_the_final_reply(
        self, dialect: Dialect, reply_of: ReplyOf, subtests: pytest.Subtests
    ) -> None:
        for text in ("It is warm.", '"quoted" \\ {"tool": 1}', "two\nlines", "👩‍👩‍👧 été"):
            with subtests.test(text):
                found = dialect.read(reply_of(Message.assistant(text)), registry_of())
                assert isinstance(found, FinalReply)
                assert found.text == text

    def test_a_call_is_read_with_its_name_and_its_arguments(
        self, dialect: Dialect, reply_of: ReplyOf
    ) -> None:
        found = dialect.read(reply_of(Message.assistant("", [CALL])), registry_of())
        assert isinstance(found, ToolCalls)
        (call,) = found.message.tool_calls
        assert call.name == "get_weather"
        assert json.loads(call.arguments) == {"city": 'Ro"me\n'}

    def test_nothing_of_a_truncated_reply_is_used(
        self, dialect: Dialect, reply_of: ReplyOf
    ) -> None:
        for message in (Message.assistant("It is"), Message.assistant("", [CALL])):
            reply = replace(reply_of(message), finish_reason="length", usage=Usage(9, 10))
            found = dialect.read(reply, registry_of())
            assert isinstance(found, InvalidReply)
            assert found.feedback
            assert found.message.tool_calls == ()

    @settings(deadline=None, suppress_health_check=list(HealthCheck))
    @given(text=st.text())
    def test_any_text_of_a_model_is_read_without_an_error(
        self, dialect: Dialect, text: str
    ) -> None:
        found = dialect.read(ChatResponse(Message.assistant(text)), registry_of())
        assert isinstance(found, ToolCalls | FinalReply | InvalidReply)
        assert not isinstance(found, InvalidReply) or found.feedback

    @settings(deadline=None, suppress_health_check=list(HealthCheck))
    @given(text=st.text())
    def test_any_text_of_a_user_and_a_tool_is_rendered(self, dialect: Dialect, text: str) -> None:
        history = [
            Message.user(text),
            Message.assistant("", [CALL]),
            Message.tool(text, "call_1", name="get_weather"),
        ]
        messages = dialect.render(history, registry_of()).messages
        assert MessageHistory(messages).check_history() == []

    # ---- whole runs

    @pytest.mark.asyncio
    async def test_a_run_calls_the_tool_and_returns_the_reply(
        self, dialect: Dialect, reply_of: ReplyOf
    ) -> None:
        model = Model(reply_of, Message.assistant("", [CALL]), Message.assistant("It is warm."))
        arguments: list[dict[str, Any]] = []

        def note(given_arguments: dict[str, Any]) -> str:
            arguments.append(given_arguments)
            return "22 degrees"

        engine = ContextEngine()
        await engine.create_session("s")
        deps = ToolLoopDeps(model.chat, engine, tool_registry=registry_of(note))
        result = await run_tool_loop(deps, "s", "How is Rome?", dialect=dialect)
        assert (result.reply, result.status) == ("It is warm.", "completed")
        assert arguments == [{"city": 'Ro"me\n'}]
        assert ["22 degrees" in request for request in model.requests] == [False, True]
        history = await engine.history("s")
        assert [message.role for message in history] == ["user", "assistant", "tool", "assistant"]
        assert history.check_history() == []

    @pytest.mark.asyncio
    async def test_a_session_can_change_its_dialect(
        self, dialect: Dialect, reply_of: ReplyOf
    ) -> None:
        engine = ContextEngine()
        await engine.create_session("s")
        native, prompt = (NativeDialect(), ChatResponse), (PromptDialect(), decision_of)
        dialects = [(dialect, reply_of), native, (dialect, reply_of), prompt, (dialect, reply_of)]
        for number, (each, each_reply) in enumerate(dialects):
            reply = f"Reply {number}."
            model = Model(each_reply, Message.assistant("", [CALL]), Message.assistant(reply))
            deps = ToolLoopDeps(model.chat, engine, tool_registry=registry_of())
            result = await run_tool_loop(deps, "s", f"Question {number}?", dialect=each)
            assert result.reply == reply
            for request in model.requests:
                assert all(f"Reply {earlier}." in request for earlier in range(number))
        assert (await engine.history("s")).check_history() == []
