"""Somebody is asked before a call is run, and before its result is shown to the model.

The asking is yours: a function, plain or async, that gets what is to be run and returns one of

    Approve()   or True     run it
    Always()                run it, and do not ask about this tool again in this session (while the same deps
                            are used, and this process lives)
    Edit(arguments)         run it with these arguments, which are checked again
    Reject(reason)  or False    do not run it; the model is told the reason word for word
    Later()                 nobody can say now: the run ends with the status "awaiting_approval"

Calls are asked about in call order, after their arguments were checked, and nothing of a turn is run before all its
calls have been decided. Knows no run; used by the executor.
"""

import copy
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stage3_tools.arguments import Arguments, check_arguments
from stage3_tools.errors import ToolError
from stage3_tools.execution import Execution, ReadyCall, WaitingCall
from stage3_tools.outcome import failed
from stage3_tools.result import ToolResult
from stage3_tools.tool import Effect


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What is asked about.

    Attributes:
        call_id: The call.
        tool: The tool's name.
        arguments: What it would be run with; changing them changes nothing, an `Edit` does.
        effect: What the tool says of itself.
        needs_approval: Whether the tool insists on being asked about. Every call is asked about: whoever wants
            to see no others returns Approve() where this is False.
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

    arguments: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Reject:
    """No; the model is told the reason word for word."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Later:
    """Not now: nothing of the turn is run, and the run can be resumed when somebody can say."""


Verdict = Approve | Always | Edit | Reject | Later
Approver = Callable[[ApprovalRequest], Verdict | bool | Awaitable[Verdict | bool]]


async def approved(ready: ReadyCall, execution: Execution) -> ReadyCall | WaitingCall:
    """The call as it may be run, or as one that waits for somebody.

    Raises:
        ToolError: Somebody rejected it ("rejected"), or edited it so that it does not fit ("validation").
        Exception: Whatever the approver raises.
    """
    request = _request(ready, execution)
    if execution.approve is None:
        return WaitingCall(ready) if request.needs_approval else ready
    match await _verdict(execution.approve, request, execution.always):
        case Reject(reason):
            raise ToolError("rejected", reason or "A person rejected this call.")
        case Edit(arguments):
            return _edited(ready, arguments)
        case Later():
            return WaitingCall(ready)
    return ready


async def reviewed(ready: ReadyCall, result: ToolResult, execution: Execution) -> ToolResult:
    """The result, or that somebody rejected it; the tool has been run in any case.

    Raises:
        TypeError: The approver answered with something that makes no sense for a result.
        Exception: Whatever the approver raises.
    """
    assert execution.approve_result is not None  # it was asked for
    request = replace(_request(ready, execution), result=result)
    match await _verdict(execution.approve_result, request, execution.always_results):
        case Reject(reason):
            error = ToolError("result_rejected", reason or "A person rejected the result of this call.")
            refused = failed(ready.call, error, duration=result.duration, attempts=result.attempts)
            return replace(refused, repairs=result.repairs)
        case Edit() | Later() as verdict:
            raise TypeError(f"A result can be approved or rejected; {type(verdict).__name__}() is for calls.")
    return result


def _request(ready: ReadyCall, execution: Execution) -> ApprovalRequest:
    tool, given = ready.tool, copy.deepcopy(ready.arguments.given)
    needs = tool.needs_approval
    try:
        insists = bool(needs(copy.deepcopy(given))) if callable(needs) else needs
    except Exception:  # whoever cannot say whether to ask is asked about
        insists = True
    return ApprovalRequest(ready.call.id, tool.name, given, tool.effect, insists, execution.session_id)


async def _verdict(approver: Approver, request: ApprovalRequest, always: set[str]) -> Verdict:
    if request.tool in always:
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
        always.add(request.tool)
    return verdict


def _edited(ready: ReadyCall, arguments: Mapping[str, Any]) -> ReadyCall:
    try:
        value = check_arguments(ready.tool, arguments)
    except ToolError as error:
        said = f"A person changed the arguments, and they do not fit. {error.message}"
        raise ToolError("validation", said, details=error.details) from None
    given = copy.deepcopy(dict(arguments))
    text = json.dumps(given, ensure_ascii=False)
    note = f"\nNote: a person changed the arguments of this call to {text}."
    return replace(ready, arguments=Arguments(given, value, text=text), note=ready.note + note)
