"""Approve, edit, reject or defer a call; approve, redact or reject a result.

An approver is a plain or async function. It receives an `ApprovalRequest` and returns one of

    Approve()   or True       run the call
    Always()                  run the call, and approve this tool for the rest of the session
    Edit(arguments)           run the call with these arguments, which are validated again
    Reject(reason)  or False  do not run the call; the model receives the reason verbatim
    Later()                   defer the decision: the run ends with "awaiting_approval"

The approver receives the calls that need approval: those of a write, unless its tool exempts them,
and those whose tool requires approval. With `approve_all` it receives every call. Without an
approver, a call whose tool requires approval waits, and all others run.

Calls are validated before they are approved, and approved in order. No call of a turn runs before
all of them are approved. The result of a tool that was run, also of one that failed, can be
approved, rejected, or replaced with `Redact`. This module does not know the run; `one_call` uses
it.
"""

import inspect
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from stage3_tools.errors import ToolError, safely
from stage3_tools.execution.arguments import Arguments, parse_arguments
from stage3_tools.result import ToolResult
from stage3_tools.tool import Effect, Tool

_MISFIT = "A person changed the arguments, and they do not fit."


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call, or its result, that an approver decides about.

    Attributes:
        call_id: The id of the call.
        tool: The tool's name.
        arguments: A copy of the arguments; use `Edit` to change them.
        effect: The declared effect of the tool.
        needs_approval: Whether the call needs approval, because of `Tool.needs_approval` or because
            it is a write. It is always true for calls, except with `approve_all`.
        session_id: The session, or None.
        result: The result, if the request is about a result; otherwise None. `is_error` of the
            result distinguishes a failure of the tool.
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
    """Run the call."""


@dataclass(frozen=True, slots=True)
class Always:
    """Run the call, and approve this tool for the rest of the session."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Run the call with other arguments."""

    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reject:
    """Do not run the call; the model receives the reason verbatim."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Later:
    """Defer the decision; no call of the turn runs, and the run can be resumed."""


@dataclass(frozen=True, slots=True)
class Redact:
    """Replace the output of a result; the model receives the reason verbatim.

    The details of the tool are removed, because they may repeat the original output. So are the
    message, the hint and the cause of a failure.
    """

    output: Any
    reason: str = ""


Verdict = Approve | Always | Edit | Reject | Later | Redact
"""What an approver may decide."""

Approver = Callable[[ApprovalRequest], Verdict | bool | Awaitable[Verdict | bool]]
"""Decides about a call or a result. True is `Approve()`, and False is `Reject()`."""

OnVerdict = Callable[[ApprovalRequest, Verdict, float], Awaitable[None]]
"""Receives a request, the verdict, and the seconds that the approver needed."""


@dataclass(frozen=True, slots=True)
class Consent:
    """Tools that `Always` approved, by name.

    Attributes:
        origin: The session; distinguishes sessions that had the same id one after the other.
        calls: Tools whose calls are approved.
        results: Tools whose results are approved.
    """

    origin: str = ""
    calls: dict[str, Tool] = field(default_factory=dict)
    results: dict[str, Tool] = field(default_factory=dict)


def requires_approval(tool: Tool, arguments: Arguments) -> bool | None:
    """Return whether a tool requires approval for a call; None if it does not state it.

    A failing check counts as yes.
    """
    check = tool.needs_approval
    if not callable(check):
        return check
    return safely(lambda: bool(check(arguments.parsed())), True)


def needs_approval(tool: Tool, arguments: Arguments) -> bool:
    """Return whether an approver decides about a call. It decides about writes by default."""
    is_required = requires_approval(tool, arguments)
    return tool.effect == "write" if is_required is None else is_required


async def ask_approver(
    approver: Approver,
    request: ApprovalRequest,
    tool: Tool,
    consent: dict[str, Tool],
    on_verdict: OnVerdict | None = None,
) -> Verdict:
    """Return the verdict of an approver.

    Args:
        approver: The approver. It is not called for a tool in `consent`.
        request: The call or the result.
        tool: The tool of the call.
        consent: Tools that are approved already; `Always` adds to them.
        on_verdict: Awaited with the verdict, if the approver was called.

    Raises:
        TypeError: The approver returned another value, or a verdict that is not valid here.
        Exception: An exception of the approver.
    """
    if consent.get(tool.name) is tool:  # another tool may have the name by now
        return Approve()
    started = time.perf_counter()
    answer = approver(replace(request, arguments=deepcopy(request.arguments)))
    verdict = await answer if inspect.isawaitable(answer) else answer
    if isinstance(verdict, bool):
        verdict = Approve() if verdict else Reject()
    is_call = request.result is None
    if not isinstance(verdict, Verdict) or isinstance(verdict, Redact if is_call else Edit | Later):
        others = "Edit(arguments), Later()" if is_call else "Redact(output)"
        raise TypeError(
            f"An approver returned {type(verdict).__name__} for a {'call' if is_call else 'result'}"
            f"; it may return Approve(), Always(), {others}, Reject(reason), True or False."
        )
    if isinstance(verdict, Always):
        consent[tool.name] = tool
    if on_verdict is not None:
        await on_verdict(request, verdict, time.perf_counter() - started)
    return verdict


def edited_arguments(tool: Tool, arguments: Mapping[str, Any]) -> Arguments:
    """Validate the arguments of an `Edit` as if the model had written them.

    Raises:
        ToolError: The arguments have no JSON form, or do not match ("validation").
    """
    try:
        if not all(isinstance(name, str) for name in arguments):
            raise TypeError("The names of arguments must be text.")  # JSON would convert them
        text = json.dumps(dict(arguments), ensure_ascii=False, allow_nan=False)
        return parse_arguments(tool, text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError("validation", f"{_MISFIT} {error}") from None
    except ToolError as error:
        raise ToolError("validation", f"{_MISFIT} {error.message}", details=error.details) from None
