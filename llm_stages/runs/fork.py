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

import stage3_tools as stage3
from llm_stages.runs.replay import recorded_options
from llm_stages.runs.run_file import RunFile
from llm_stages.runs.values import Run, RunParent, RunRequest, RunTool
from stage0_gateway import Chat, ChatModel, ChatResponse, Message
from stage1_context import ContextEngine, MessageHistory


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
    tools: stage3.ToolRegistry | None = None
    approve: Callable[..., Any] | None = None


async def fork_run(
    run: Run, chat: Chat | ChatModel, fork: Fork, source: Path, target: Path
) -> stage3.ToolLoopResult:
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
    request = _request(run, fork.turn)
    messages = _messages(request, fork)
    engine = ContextEngine()
    tools = fork.tools
    if tools is None:
        tools = stage3.ToolRegistry(*(_recorded_tool(tool, run) for tool in request.tools))
    deps = stage3.ToolLoopDeps(chat, engine, tool_registry=tools)
    session_id = await engine.create_session()
    await engine.add_messages(session_id, *messages)
    options = replace(
        recorded_options(run),
        approve=fork.approve,
        approve_all=True,
        trace=RunFile(target, parent=RunParent(source.name, run.id, fork.turn)),
    )
    question = stage3.last_question(MessageHistory(messages))
    state = stage3.RunState(deps, engine.transcript(session_id), options, question)
    first = None
    if fork.reply is not None:
        response = ChatResponse(Message.assistant(fork.reply), finish_reason="stop")
        first = stage3.Turn(deps.tool_registry, response=response)

    async def body() -> stage3.Ending:
        return await stage3.run_turns(state, first)

    return await stage3.run_to_end(state, body)


def _request(run: Run, number: int) -> RunRequest:
    requests = {turn.number: turn.request for turn in run.turns if turn.request is not None}
    if number not in requests:
        numbers = ", ".join(map(str, requests))
        raise ValueError(f"The run has no turn {number}. Its turns with a request: {numbers}.")
    return requests[number]


def _messages(request: RunRequest, fork: Fork) -> list[Message]:
    """The conversation before the turn, with the edited question."""
    messages = list(request.stored)
    if fork.message is not None:
        question = stage3.last_question(MessageHistory(messages))
        if question is None:
            raise ValueError("The conversation has no question that could be replaced.")
        messages[messages.index(question)] = Message.user(fork.message)
    return messages


def _recorded_tool(tool: RunTool, run: Run) -> stage3.Tool:
    """A tool that knows only the results of the recorded run."""

    def execute(arguments: dict[str, Any]) -> Any:
        for call in run.calls:
            if call.result and call.is_same(tool.name, arguments):
                message, kind = call.result.message, call.result.error_kind
                if not message.is_error:
                    return message.content
                text = message.text.removeprefix(f"Error ({kind}): ")
                raise stage3.ToolError("execution", text, max_retries=0)
        raise stage3.ToolError(
            "not_found",
            "No tool is run here, and the recorded run has no result for these arguments.",
            hint="Pass --tools to run tools.",
        )

    return stage3.Tool(tool.name, tool.description, tool.parameters or None, execute, effect="read")
