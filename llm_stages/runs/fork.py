"""Continue a recorded run from one of its turns, with a change.

The conversation before the turn is taken from the file. Then the loop continues as usual: with an
edited reply, another question, other tools or another model. The new run file names its parent.

Without tools of its own, a fork runs no tool: a call that the recorded run also made receives the
recorded result, and any other call an error.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llm_stages.runs.replay import recorded_options
from llm_stages.runs.run_file import RunFile
from llm_stages.runs.values import Run, RunParent, RunTool, RunTurn
from stage0_gateway import (
    Chat,
    ChatModel,
    ChatResponse,
    Message,
)
from stage1_context import (
    ContextEngine,
    MessageHistory,
)
from stage3_tools import (
    Ending,
    RunState,
    Tool,
    ToolError,
    ToolLoopDeps,
    ToolLoopResult,
    ToolRegistry,
    Turn,
    json_value,
    last_question,
    run_to_end,
    run_turns,
)


@dataclass(frozen=True, kw_only=True)
class Fork:
    """The changes of a fork.

    Attributes:
        turn: The number of the turn from which the run continues.
        reply: The text of the reply of this turn; None asks the model.
        message: Replaces the newest question; None keeps it.
        tools: The tools; None uses the recorded results.
        approve: Decides about each call; None approves.
    """

    turn: int
    reply: str | None = None
    message: str | None = None
    tools: ToolRegistry | None = None
    approve: Callable[..., Any] | None = None


async def fork_run(
    run: Run, chat: Chat | ChatModel, fork: Fork, source: Path, target: Path
) -> ToolLoopResult:
    """Continue a recorded run, and write a new run file.

    Args:
        run: The recorded run.
        chat: The model: a gateway, or a function that sends messages.
        fork: The changes.
        source: The file of the recorded run.
        target: The new file.

    Raises:
        ValueError: The run has no such turn, or no question to replace.
        GatewayError: The model could not be reached.
    """
    turn = _turn(run, fork.turn)
    assert turn.request is not None
    messages = _messages(turn, fork)
    engine = ContextEngine()
    tools = fork.tools if fork.tools is not None else _recorded_tools(run, turn)
    deps = ToolLoopDeps(chat, engine, tool_registry=tools)
    session_id = await engine.create_session()
    await engine.add_messages(session_id, *messages)
    options = replace(
        recorded_options(run),
        approve=fork.approve,
        approve_all=True,
        trace=RunFile(target, parent=RunParent(source.name, run.id, fork.turn)),
    )
    question = last_question(MessageHistory(messages))
    state = RunState(deps, engine.transcript(session_id), options, question)
    first = None
    if fork.reply is not None:
        response = ChatResponse(Message.assistant(fork.reply), finish_reason="stop")
        first = Turn(deps.tool_registry, response=response)

    async def body() -> Ending:
        return await run_turns(state, first)

    return await run_to_end(state, body)


def _turn(run: Run, number: int) -> RunTurn:
    for turn in run.turns:
        if turn.number == number and turn.request is not None:
            return turn
    numbers = ", ".join(str(turn.number) for turn in run.turns if turn.request is not None)
    raise ValueError(f"The run has no turn {number}. Its turns with a request: {numbers}.")


def _messages(turn: RunTurn, fork: Fork) -> list[Message]:
    """The conversation before the turn, with the edited question."""
    assert turn.request is not None
    messages = list(turn.request.stored)
    if fork.message is not None:
        question = last_question(MessageHistory(messages))
        if question is None:
            raise ValueError("The conversation has no question that could be replaced.")
        messages[messages.index(question)] = Message.user(fork.message)
    return messages


def _recorded_tools(run: Run, turn: RunTurn) -> ToolRegistry:
    assert turn.request is not None
    return ToolRegistry(*(_recorded_tool(tool, run) for tool in turn.request.tools))


def _recorded_tool(tool: RunTool, run: Run) -> Tool:
    """A tool that knows only the results of the recorded run."""

    def execute(arguments: dict[str, Any]) -> Any:
        for call in run.calls:
            if call.name == tool.name and call.result and json_value(call.arguments) == arguments:
                message, kind = call.result.message, call.result.error_kind
                if message.is_error:
                    prefix = f"Error ({kind}): "
                    raise ToolError("execution", message.text.removeprefix(prefix), max_retries=0)
                return message.content
        raise ToolError(
            "not_found",
            "No tool is run here, and the recorded run has no result for these arguments.",
            hint="Pass --tools to run tools.",
        )

    return Tool(tool.name, tool.description, tool.parameters or None, execute, effect="read")
