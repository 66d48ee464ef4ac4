"""Show the events of a run and its gateway while they happen, and ask for approval."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llm_stages.cli.terminal import Terminal
from stage0_gateway import (
    Gateway,
    GatewayEvent,
    RetryEvent,
    ToolCall,
    WarningEvent,
)
from stage3_tools import (
    Always,
    ApprovalRequest,
    Approve,
    Edit,
    FeedbackGiven,
    LoopEvent,
    Reject,
    ReplyText,
    ToolAnswered,
    ToolCalled,
    ToolRetried,
    Verdict,
)

_LONG = 200
_ATTEMPTS = 3
_QUESTION = "Run it? [y]es, [n]o, [a]lways, [e]dit: "


def open_gateway(model: str | None, terminal: Terminal) -> Gateway:
    """Return the gateway of a command; it prints retries and warnings.

    Args:
        model: "provider:name"; None uses the environment.
        terminal: Where it prints.

    Raises:
        ConfigurationError: The settings are invalid.
    """

    def on_event(event: GatewayEvent) -> None:
        match event:
            case RetryEvent(error=error, attempt=attempt, wait=wait):
                terminal.note(
                    f"{type(error).__name__}: retrying in {wait:g} s "
                    f"(attempt {attempt + 1} of {_ATTEMPTS})",
                    "yellow",
                )
            case WarningEvent(text=text):
                terminal.note(text, "yellow")

    return Gateway.from_env(model, max_retries=_ATTEMPTS - 1, on_event=on_event)


class LiveOutput:
    """Prints the calls and results of a run, and its reply while it arrives.

    The runs that its tools make are not shown; they are part of the result of a tool.

    Args:
        terminal: Where it prints.

    Attributes:
        shown: The part of the reply that was printed.
    """

    def __init__(self, terminal: Terminal) -> None:
        self.shown = ""
        self._last_call: ToolCall | None = None  # shown in the last line
        self._terminal = terminal

    def on_event(self, event: LoopEvent) -> None:
        """Show an event."""
        self._last_call = None
        if event.parent_run_id is not None:  # of a run that a tool makes
            return
        match event:
            case ReplyText(text=text) if not self._terminal.as_json:
                if text.startswith(self.shown):
                    self._terminal.piece(text.removeprefix(self.shown))
                    self.shown = text
            case ToolCalled(call=call):
                self._end_line()
                self._terminal.note(f"→ {call.name} {shortened(call.arguments)}", "cyan")
                self._last_call = call
            case ToolRetried(call=call, error=error, attempt=attempt):
                note = f"  {call.name}: attempt {attempt} failed: {error.message}"
                self._terminal.note(shortened(note), "yellow")
            case ToolAnswered(result=result):
                style = "red" if result.is_error else "green"
                self._terminal.note(f"← {shortened(as_text(result.output))}", style)
            case FeedbackGiven(feedback=feedback):
                self._end_line()
                self._terminal.note(f"invalid reply; feedback: {shortened(feedback)}", "yellow")

    def take_last_line(self, request: ApprovalRequest) -> bool:
        """Return whether the last line of the screen shows the whole call, before another one."""
        call, self._last_call = self._last_call, None
        return (
            call is not None
            and call.id == request.call_id
            and len(call.arguments) <= _LONG
            and as_text(request.arguments) == _rewritten(call.arguments)
            and not self._terminal.as_json
            and (sys.stderr.isatty() or not sys.stdout.isatty())  # notes and questions: one screen
        )

    def finish(self, reply: str) -> None:
        """Print the part of a reply that was not printed yet."""
        if self.shown and reply.startswith(self.shown):
            self._terminal.piece(reply.removeprefix(self.shown) + "\n")
        else:
            self._end_line()
            self._terminal.reply(reply)
        self.shown = ""

    def _end_line(self) -> None:
        if self.shown:
            self._terminal.piece("\n")
            self.shown = ""


def approver(terminal: Terminal, live: LiveOutput | None = None) -> Any:
    """Return an approver that asks at the terminal, except about reads that need no approval.

    Args:
        terminal: Where the call is shown.
        live: Shows the calls as well; a call in its last line is not repeated.
    """

    def approve(request: ApprovalRequest) -> Verdict:
        if request.effect == "read" and not request.needs_approval:
            return Approve()
        if live is not None and live.take_last_line(request):
            return _verdict(_QUESTION, terminal)
        arguments = json.dumps(request.arguments, indent=2, ensure_ascii=False)
        return _verdict(f"{request.tool} {arguments}\n{_QUESTION}", terminal)

    return approve


def _verdict(question: str, terminal: Terminal) -> Verdict:
    while True:
        try:
            with interruptible():
                answer = terminal.ask(question).strip().lower()[:1]
                if answer == "y":
                    return Approve()
                if answer == "a":
                    return Always()
                if answer == "n":
                    return Reject(terminal.ask("Reason for the model: ").strip())
                arguments = _arguments(terminal) if answer == "e" else None
        except EOFError:
            return Reject("Nobody can approve the call.")
        if arguments is not None:
            return Edit(arguments)


def _arguments(terminal: Terminal) -> dict[str, Any] | None:
    """Ask for other arguments; return None if the answer is not a JSON object."""
    try:
        value = json.loads(terminal.ask("Arguments as JSON: "))
    except ValueError as error:
        terminal.error(f"The arguments are not JSON: {error}")
        return None
    if not isinstance(value, dict):
        terminal.error('The arguments must be an object, such as {"path": "a.txt"}.')
        return None
    return value


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt immediately, also while an event loop runs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _rewritten(text: str) -> str | None:
    """Return JSON text as `as_text` writes it; None if it is invalid, and was repaired."""
    try:
        return as_text(json.loads(text))
    except ValueError:
        return None


def as_text(value: Any) -> str:
    """An output as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def shortened(text: str) -> str:
    """A text in one line, at most 200 characters."""
    line = " ".join(text.split())
    return line if len(line) <= _LONG else line[:_LONG] + " …"
