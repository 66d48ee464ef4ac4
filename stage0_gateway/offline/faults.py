"""Faults on purpose: what models and servers get wrong, each under a name, to be seen and defended against.

`FAULTS` is the one table. A `FaultPlan` gives the n-th request the n-th fault of a list. The faults
themselves are `broken_reply.py` (what the model says) and `broken_answer.py` (how it is sent). Used by
`endpoint.py`, through `OfflineModel(faults=…)` and `python -m stage0_gateway serve --faults …`.
"""

import difflib
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from stage0_gateway.errors import ConfigurationError
from stage0_gateway.offline import broken_answer as answers
from stage0_gateway.offline import broken_reply as replies
from stage0_gateway.offline import broken_text as texts
from stage0_gateway.offline.broken_answer import AnswerFault
from stage0_gateway.offline.broken_reply import ReplyFault

HEALTHY = "none"
"""In a plan: this request is answered as it should be."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One row of the table.

    Attributes:
        does: What happens.
        shows: What is expected to cope with it, and how.
        in_reply: What it does to the model's reply.
        in_answer: What it does to the answer on its way.
        stays: Whether it holds for all requests from this one on.
    """

    does: str
    shows: str
    in_reply: ReplyFault | None = None
    in_answer: AnswerFault | None = None
    stays: bool = False


FAULTS: dict[str, Fault] = {
    # What the model writes. In the prompt dialect the JSON text of a decision, else the arguments of native calls.
    "fenced": Fault(
        "the JSON stands in a code fence", "extraction finds it there", replies.in_json(texts.fenced)
    ),
    "prose_around": Fault(
        "polite words before and after the JSON, or beside a native call",
        "extraction finds the one object in the prose",
        replies.around_json(texts.prose_around, lambda _: "Sure! Let me look that up."),
    ),
    "thinking_first": Fault(
        "thoughts in <think> tags come first, with a draft object in them",
        "the draft is never taken for the answer",
        replies.around_json(texts.thinking_first, texts.thoughts),
    ),
    "trailing_comma": Fault(
        "a comma after the last field",
        "extraction leaves it out and names the repair",
        replies.in_json(texts.trailing_comma),
    ),
    "single_quotes": Fault(
        "single quotes instead of double ones",
        "extraction reads them as double ones and names the repair",
        replies.in_json(texts.single_quotes),
    ),
    "not_json": Fault(
        "a sentence where JSON was asked for",
        "feedback, then another try; no tool runs",
        replies.in_json(texts.in_words),
    ),
    "cut_in_the_middle": Fault(
        "half of the reply, finish reason length",
        "nothing of a cut reply is run; the model is told",
        replies.cut_in_the_middle,
    ),
    "empty_reply": Fault("no text and no call", "it is asked once more", replies.empty),
    # What the model calls. The faults in arguments are also faults in the fields of a reply by schema.
    "wrong_argument_name": Fault(
        "a required argument has another name",
        "validation names the nearest argument",
        replies.in_arguments(texts.renamed),
    ),
    "wrong_argument_type": Fault(
        "a required argument has another type",
        "types are strict: validation names the expected one",
        replies.in_arguments(texts.retyped),
    ),
    "missing_argument": Fault(
        "a required argument is missing",
        "validation names what is missing",
        replies.in_arguments(texts.without),
    ),
    "unknown_tool": Fault(
        "a tool that does not exist",
        "the model is told which tools there are, and the nearest",
        replies.unknown_tool,
    ),
    "two_calls": Fault("the same call twice in one reply", "each call id gets one result", replies.two_calls),
    "endless_tool_calls": Fault(
        "from now on a call every time, also without tools",
        "repeated calls are noticed, and rounds are limited",
        replies.call_again,
        stays=True,
    ),
    # What the server counts.
    "usage_missing": Fault("no token counts", "usage is None, not zero", replies.without_usage),
    "silent_truncation": Fault(
        "counts far below what was sent",
        "a WarningEvent: the prompt was cut without a word",
        replies.read_too_little,
    ),
    # What the server answers.
    "rate_limited": Fault(
        "429 with Retry-After: 1",
        "RateLimited; sent again after a second",
        in_answer=answers.refused(429, "Too many requests (a fault on purpose).", Retry_After="1"),
    ),
    "overloaded": Fault(
        "503",
        "ServerFailed; sent again",
        in_answer=answers.refused(503, "The server is overloaded (a fault on purpose)."),
    ),
    "server_error": Fault(
        "500",
        "ServerFailed; sent again",
        in_answer=answers.refused(500, "The server failed (a fault on purpose)."),
    ),
    "html_error": Fault(
        "502 with a proxy's page",
        "ServerFailed with the page's words; sent again",
        in_answer=answers.html_page,
    ),
    "malformed_body": Fault(
        "200 with JSON that breaks off", "MalformedResponse; not sent again", in_answer=answers.malformed
    ),
    # What happens on the way.
    "disconnect": Fault(
        "the line breaks before the answer", "ConnectionFailed; sent again", in_answer=answers.hung_up
    ),
    "disconnect_mid_stream": Fault(
        "the line breaks after half of the answer",
        "StreamInterrupted, or ConnectionFailed where it was no stream",
        in_answer=answers.cut_off,
    ),
    "no_finish_reason": Fault(
        "a stream ends without finish reason and end marker; a whole reply has null there",
        "StreamInterrupted; finish reason unknown where it was no stream",
        in_answer=answers.without_end,
    ),
    "error_in_stream": Fault(
        "an error in the middle of a stream; a whole reply is an error with status 200",
        "the error is raised, and what came before is no reply",
        in_answer=answers.error_inside,
    ),
}


class FaultPlan:
    """Which request gets which fault; may be asked from several threads.

    Args:
        names: The n-th request gets the n-th fault; None or "none" is a healthy reply. After the last, all
            is well again, but for a fault that stays. Also one text, with commas between the names.

    Raises:
        ConfigurationError: There is no such fault.
    """

    def __init__(self, names: str | Iterable[str | None] = ()) -> None:
        if isinstance(names, str):
            names = [name.strip() for name in names.split(",") if name.strip()]
        self._left = [_fault(name) for name in names]
        self._left.reverse()
        self._staying: list[Fault] = []
        self._lock = threading.Lock()

    def next(self) -> tuple[Fault, ...]:
        """The faults for the next request, in the order in which they happen."""
        with self._lock:
            fault = self._left.pop() if self._left else None
            if fault is not None and fault.stays:
                self._staying.append(fault)
                fault = None
            return (*self._staying, *([fault] if fault else []))


def _fault(name: str | None) -> Fault | None:
    if name is None or name == HEALTHY:
        return None
    if name in FAULTS:
        return FAULTS[name]
    near = difflib.get_close_matches(str(name)[:200], FAULTS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigurationError(f"There is no fault {name!r}.{hint} There are {', '.join((HEALTHY, *FAULTS))}.")
