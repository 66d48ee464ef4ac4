"""One request of a run: the history windowed and rendered, shown to whoever wants to change it, and
sent.

Knows no turn and what becomes of the reply; used by `turn`.
"""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from itertools import dropwhile

from stage0_gateway import ChatResponse, Message, MessageStream, as_message
from stage1_context import SessionConflict
from stage3_tools.dialects.protocol import LAST_REQUEST, RequestParts
from stage3_tools.events import ReplyStreamed, TurnStarted
from stage3_tools.options import BeforeSend, RequestInfo, check_kind
from stage3_tools.registry import ToolRegistry
from stage3_tools.run.state import Run


async def ask(
    run: Run, registry: ToolRegistry, *, last: bool = False
) -> tuple[ChatResponse | MessageStream, ToolRegistry]:
    """Ask the model; where replies are streamed, nothing is sent before somebody reads.

    Args:
        run: The run.
        registry: The tools of this turn.
        last: Whether this is the final request, in which tools cannot be called.

    Returns:
        The reply, and the tools it may ask for: one to read variables comes with the first
        variable.

    Raises:
        GatewayError: The model could not be asked; the history is as it was.
        RunStopped: The run was aborted or has no time left; nothing was sent.
        SessionConflict: Somebody else runs calls in this conversation.
        WindowTooSmall: Not even the newest exchange fits.
        ValueError: `before_send` left nothing to send, or something that is no message.
    """
    tools = run.tools(registry)
    history = await _window(run, tools, last)
    if run.has_seen(history):
        tools = run.tools(registry)
        history = await _window(run, tools, last)
    newest = _newest(history)
    if _is_open(newest) and await run.transcript.open_calls() is not None:
        raise SessionConflict(
            "The newest calls of this conversation have no results yet: somebody else is at it. If nobody is, "
            "resume=True goes on with them."
        )
    if _is_open(newest) or _is_parted(newest):  # somebody said something while the tools ran
        await run.transcript.close_open_calls()
        history = await _window(run, tools, last)
    run.seen = run.transcript.length
    parts = run.dialect.render(history, tools, last=last)
    if run.options.before_send is not None:
        info = RequestInfo(run.turns, tools.specs(), last)
        parts = replace(
            parts, messages=await _edited(parts.messages, info, run.options.before_send)
        )
    run.shown = parts.messages
    run.tell(TurnStarted, messages=parts.messages)
    run.checkpoint()
    settings = _settings(run, parts)
    if run.deps.stream is None:
        return run.took(await run.deps.chat(parts.messages, **settings)), tools
    stream = run.deps.stream(parts.messages, **settings)
    check_kind("What stream= returns", stream, MessageStream, "Give gateway.stream.")
    run.tell(ReplyStreamed, stream=stream)
    if run.is_stopped:
        await stream.aclose()
    run.checkpoint()
    return stream, tools


async def _window(run: Run, registry: ToolRegistry, last: bool) -> list[Message]:
    return await run.transcript.for_request(
        alongside=run.dialect.describe(registry) + (LAST_REQUEST if last else ""),
        reserve_tokens=run.options.max_tokens or 0,
        pinned=run.question,
    )


def _is_open(newest: Sequence[Message]) -> bool:
    """Whether the newest calls have fewer results than they are."""
    return (
        len(newest[0].tool_calls) > sum(each.role == "tool" for each in newest) if newest else False
    )


def _is_parted(newest: Sequence[Message]) -> bool:
    """Whether something stands between the newest calls and their results."""
    behind = dropwhile(lambda each: each.role == "tool", newest[1:])
    return any(each.role == "tool" for each in behind)


def _newest(history: Sequence[Message]) -> Sequence[Message]:
    """The newest message of a model, and what follows it."""
    for back, message in enumerate(reversed(history), 1):
        if message.role == "assistant":
            return history[-back:]
    return ()


async def _edited(
    messages: tuple[Message, ...], info: RequestInfo, before_send: BeforeSend
) -> tuple[Message, ...]:
    given = before_send([*messages], info)
    edited = await given if inspect.isawaitable(given) else given
    if edited is None:
        return messages
    checked = tuple(as_message(each) for each in edited)
    if not checked:
        raise ValueError(
            "before_send returned no message. Return those to send, or None for those it was given."
        )
    return checked


def _settings(run: Run, parts: RequestParts) -> dict[str, object]:
    settings = {
        "tools": parts.tools,
        "tool_choice": parts.tool_choice,
        "temperature": run.options.temperature,
        "max_tokens": run.options.max_tokens,
    }
    return {name: value for name, value in settings.items() if value not in (None, ())}
