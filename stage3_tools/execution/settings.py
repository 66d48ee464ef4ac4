"""`ExecutionSettings`: the settings of calls, which all modules of this room share.

`run/state.py` creates the settings of a run from its options.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from stage0_gateway import ToolCall
from stage3_tools.abort import Abort
from stage3_tools.context import ParentRun
from stage3_tools.errors import ToolError
from stage3_tools.execution.approval import Approver, Consent, OnVerdict
from stage3_tools.execution.cache import ResultCache
from stage3_tools.execution.error_kinds import Classify
from stage3_tools.tool import Tool

REFERENCE = "$VAR_REF{{"
"""The beginning of a reference to a variable."""

Expand = Callable[[Tool, Any], Awaitable[str]]
"""Replaces references to variables in parsed arguments, and returns JSON text."""


class ToolLookup(Protocol):
    """The part of a registry that calls need."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools."""

    def get(self, name: str) -> Tool:
        """Return the tool with this name.

        Raises:
            ToolError: The name is unknown ("not_found").
        """


@dataclass(frozen=True)
class ExecutionSettings:
    """Settings of all calls of a run.

    Attributes:
        session_id: The session for contexts, approval and the cache.
        origin: Distinguishes the session from all others, for idempotency keys. None creates a
            random key for each call.
        approve: Decides about calls that need approval; None approves all calls but those whose
            tool requires approval.
        approve_all: Whether `approve` receives every call.
        can_suspend: Whether a call that nobody can approve now may wait. If not, it is rejected.
        approve_result: Decides about results of tools that were run; None approves all.
        consent: Tools that are approved already.
        cache: Stores results of read tools; None stores nothing.
        classify: Converts exceptions before the rules of `error_kinds` apply, or describes them.
        screen: Checks each call first. Returns a note for the model or "", or raises ToolError.
        expand: Replaces references to variables; None leaves them unchanged.
        stopped: Whether the run was stopped; checked immediately before each attempt.
        on_progress: Called with each progress report; must not raise.
        on_retry: Called with each failure that is retried, and the number of its attempt. With
            `approve_result`, the failure has no text.
        on_verdict: Awaited with each request to an approver, its verdict, and the seconds that it
            took.
        sub_run: Creates the value with which a run inside of a call names this run.
        timeout: Seconds for one attempt, above 0, instead of the tool's own; None uses the tool's.
    """

    session_id: str | None = None
    origin: str | None = None
    approve: Approver | None = None
    approve_all: bool = False
    can_suspend: bool = False
    approve_result: Approver | None = None
    consent: Consent = field(default_factory=Consent)
    cache: ResultCache | None = None
    classify: Classify | None = None
    screen: Callable[[ToolCall], str] | None = None
    expand: Expand | None = None
    stopped: Callable[[], bool] | None = None
    on_progress: Callable[[ToolCall, Any], None] | None = None
    on_retry: Callable[[ToolCall, ToolError, int], None] | None = None
    on_verdict: OnVerdict | None = None
    sub_run: Callable[[ToolCall, Abort], ParentRun] | None = None
    timeout: float | None = None
