"""Somebody is asked before a call is run, and before its result is shown to the model.

The asking is yours: a function, plain or async, that gets what is to be run and returns one of

    Approve()   or True     run it
    Always()                run it, and do not ask about this tool again in this session (while the
    same deps
                            are used, and this process lives)
    Edit(arguments)         run it with these arguments, which are checked again
    Reject(reason)  or False    do not run it; the model is told the reason word for word
    Later()                 nobody can say now: the run ends with the status "awaiting_approval"

Calls are asked about in call order, after their arguments were checked, and nothing of a turn is
run before all its calls have been decided. Knows no run; used by the executor.
"""

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stage3_tools.errors import ToolError
from stage3_tools.execution.arguments import Arguments, parse_arguments
from stage3_tools.execution.error_kinds import safely
from stage3_tools.execution.results import failed
from stage3_tools.execution.settings import Execution, ReadyCall
from stage3_tools.result import ToolResult
from stage3_tools.tool import Effect, Tool

_MISFIT = "A person changed the arguments, and they do not fit."


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What is asked about.

    Attributes:
        call_id: The call.
        tool: The tool's name.
        arguments: What it would be run with; changing them changes nothing, an `Edit` does.
        effect: What the tool says of itself.
        needs_approval: Whether the tool insists on being asked about. Every call is asked about:
            whoever wants to see no others returns Approve() where this is False.
        session_id: The session, or None.
        result: What came of it, where the result is asked about; else None.
    """

    call_id: str
    tool: str
    arguments: dict[str, Any]
    effect: Effect
    needs_approval: bool
    session_id: str | None = None
    result: ToolResult | None = None


@dataclass(frozen=True, slots=True)
class Approve:
    """Yes."""


@dataclass(frozen=True, slots=True)
class Always:
    """Yes, and do not ask about this tool again in this session."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Yes, with other arguments."""

    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reject:
    """No; the model is told the reason word for word."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Later:
    """Not now: nothing of the turn is run, and the run can be resumed when somebody can say."""


Verdict = Approve | Always | Edit | Reject | Later
Approver = Callable[[ApprovalRequest], Verdict | bool | Awaitable[Verdict | bool]]


async def approved(ready: ReadyCall, execution: Execution) -> ReadyCall:
    """The call as it may be run, or marked as waiting for consent.

    Raises:
        ToolError: Somebody rejected it ("rejected"), or edited it so that it does not fit
            ("validation").
        Exception: Whatever the approver raises.
    """
    if execution.approve is None:
        return replace(ready, waits=_insists(ready.tool, ready.arguments))
    request = _request(ready, execution)
    match await _verdict(execution.approve, request, ready.tool, execution.consent.calls):
        case Reject(reason):
            raise ToolError("rejected", reason or "A person rejected this call.")
        case Edit(arguments):
            return _edited(ready, arguments)
        case Later():
            return replace(ready, waits=True)
    return ready


async def reviewed(ready: ReadyCall, result: ToolResult, execution: Execution) -> ToolResult:
    """Return the result, or that it was rejected; the tool has been run in any case.

    Raises:
        TypeError: The approver answered with something that makes no sense for a result.
        Exception: Whatever the approver raises.
    """
    if execution.approve_result is None or result.status != "completed":
        return result
    request = replace(_request(ready, execution), result=result)
    match await _verdict(execution.approve_result, request, ready.tool, execution.consent.results):
        case Reject(reason):
            error = ToolError(
                "result_rejected", reason or "A person rejected the result of this call."
            )
            refused = failed(ready.call, error, duration=result.duration, attempts=result.attempts)
            return replace(refused, repairs=result.repairs, note=result.note)
        case Edit() | Later() as verdict:
            raise TypeError(
                f"A result can be approved or rejected; {type(verdict).__name__}() is for calls."
            )
    return result


def _request(ready: ReadyCall, execution: Execution) -> ApprovalRequest:
    call, tool, arguments = ready.call, ready.tool, ready.arguments
    return ApprovalRequest(
        call.id,
        tool.name,
        arguments.given,
        tool.effect,
        _insists(tool, arguments),
        execution.session_id,
    )


def _insists(tool: Tool, arguments: Arguments) -> bool:
    if not callable(tool.needs_approval):
        return tool.needs_approval
    needs_approval, given = tool.needs_approval, arguments.given
    return safely(lambda: bool(needs_approval(given)), True)


async def _verdict(
    approver: Approver, request: ApprovalRequest, tool: Tool, always: dict[str, Tool]
) -> Verdict:
    if always.get(tool.name) is tool:  # and no other one that has got its name
        return Approve()
    answer = approver(request)
    verdict = await answer if inspect.isawaitable(answer) else answer
    if isinstance(verdict, bool):
        return Approve() if verdict else Reject()
    if not isinstance(verdict, Verdict):
        raise TypeError(
            f"An approver returned {type(verdict).__name__}; it may return "
            "Approve(), Always(), Edit(arguments), Reject(reason), Later(), True or False."
        )
    if isinstance(verdict, Always):
        always[tool.name] = tool
    return verdict


def _edited(ready: ReadyCall, arguments: Mapping[str, Any]) -> ReadyCall:
    """The call as if the model had written these arguments."""
    try:
        if not all(
            isinstance(name, str) for name in arguments
        ):  # JSON would make text of other names
            raise TypeError("The names of arguments must be text.")
        text = json.dumps(dict(arguments), ensure_ascii=False, allow_nan=False)
        given = parse_arguments(ready.tool, text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError("validation", f"{_MISFIT} {error}") from None
    except ToolError as error:
        raise ToolError("validation", f"{_MISFIT} {error.message}", details=error.details) from None
    note = f"\nNote: a person changed the arguments of this call to {text}."
    return replace(ready, arguments=given, note=ready.note + note)
