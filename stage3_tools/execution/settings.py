"""How calls are to be executed, and a call on its way: values that executor and batch share.

Knows nothing of how a run is set up: `run.py` fills an `Execution` from the options, and whoever
uses the executor without a loop makes one.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stage0_gateway import ToolCall
from stage3_tools.errors import ToolError
from stage3_tools.execution.arguments import Arguments
from stage3_tools.execution.error_kinds import Classify, ErrorText
from stage3_tools.tool import Tool

if TYPE_CHECKING:
    from stage3_tools.execution.approval import Approver
    from stage3_tools.execution.cache import ResultCache


REFERENCE = "$VAR_REF{{"
"""How a reference to a variable begins; a text without it needs no looking after."""

Expand = Callable[[Tool, Any], Awaitable[str]]
"""Receives the arguments of a call, and returns them as JSON text with values instead of
references."""


@dataclass(frozen=True, slots=True)
class Consent:
    """The tools whose calls, and whose results, are approved without asking, by name.

    Attributes:
        origin: The session that it belongs to; a new one may have the name of another.
        calls: Tools whose calls are approved.
        results: Tools whose results are.
    """

    origin: str = ""
    calls: dict[str, Tool] = field(default_factory=dict)
    results: dict[str, Tool] = field(default_factory=dict)


@dataclass(frozen=True)
class Execution:
    """How calls are to be executed; the same for all calls of a run.

    Attributes:
        session_id: For the tools' context and the cache.
        origin: What makes the idempotency keys of this session's calls differ from all others; None
            makes a key at random for each call.
        approve: Asked before a call is run; None asks nobody.
        approve_result: Asked before a result is given away.
        consent: The tools whose calls or results are approved without asking; an `Always` adds to
            it.
        cache: Keeps what read tools said; None keeps nothing.
        classify: Says what exceptions mean, before the rules of `kinds` do.
        error_text: What the model is told of an exception.
        screen: Looks at each call first; returns what to tell the model besides the result, or
            raises ToolError.
        expand: Puts values in the place of references to variables; None leaves references alone.
        on_start: Awaited when a call is about to run.
        stopped: Whether no further tool may begin; checked immediately before a tool's function is
            called.
        on_progress: Told what a tool reports; should not raise.
        on_retry: Told of a failure that is followed by another try, and which try it was.
    """

    session_id: str | None = None
    origin: str | None = None
    approve: "Approver | None" = None
    approve_result: "Approver | None" = None
    consent: Consent = field(default_factory=Consent)
    cache: "ResultCache | None" = None
    classify: Classify | None = None
    error_text: ErrorText = "message"
    screen: Callable[[ToolCall], str] | None = None
    expand: Expand | None = None
    on_start: Callable[[ToolCall], Awaitable[None]] | None = None
    stopped: Callable[[], bool] | None = None
    on_progress: Callable[[ToolCall, Any], None] | None = None
    on_retry: Callable[[ToolCall, ToolError, int], None] | None = None


@dataclass(frozen=True, slots=True)
class ReadyCall:
    """A valid call that may be run, unless it waits for consent.

    Attributes:
        call: As the model wrote it.
        tool: The tool it means.
        arguments: Checked; as somebody edited them, if so.
        note: What to tell the model besides the result.
        waits: Whether the call waits for consent, and may not be run before.
    """

    call: ToolCall
    tool: Tool
    arguments: Arguments
    note: str = ""
    waits: bool = False
