"""`Explanation`: explain to people which messages a window selects, which it drops, and why.

Pure; it describes a `Selection` and selects nothing itself. `print(await engine.explain(session))`
prints a table. `newly_dropped` explains only what the previous request still contained, so that a
trace can call it before every request.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from typing_extensions import TypeIs

from stage1_context.tokens import Counted
from stage1_context.view.projection import is_summary
from stage1_context.view.selection import Selection
from stage1_context.window import DropOldest, exchange_start

_PREVIEW = 40  # characters


@dataclass(frozen=True, slots=True)
class Explained:
    """A message and the decision about it.

    Attributes:
        index: The index of its record; -1 for a message without one, such as a summary.
        role: The role.
        preview: The beginning of the text.
        tokens: The tokens by our own count.
        sent: Whether the message is sent.
        why: The reason.
    """

    index: int
    role: str
    preview: str
    tokens: int
    sent: bool
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decisions of a window about a conversation.

    Attributes:
        window: The window as text.
        budget: The tokens of each part of the request by our own count; "left" is unused.
        ratio: The server's tokens for each token of our own count.
        messages: Every message of the conversation, oldest first.
    """

    window: str
    budget: dict[str, int]
    ratio: float
    messages: tuple[Explained, ...]

    @property
    def dropped(self) -> tuple[Explained, ...]:
        """The messages that are not sent."""
        return tuple(each for each in self.messages if not each.sent)

    def __str__(self) -> str:
        used = " + ".join(
            f"{tokens} {name}" for name, tokens in self.budget.items() if name != "left"
        )
        left = f", {self.budget['left']} left" if "left" in self.budget else ""
        lines = [self.window, f"tokens: {used}{left}"]
        if self.ratio != 1.0:
            lines.append(
                f"The server counts {self.ratio:.2f} for each of these, the reply's apart."
            )
        # The text is the last column, because the width of some alphabets cannot be aligned.
        why = max(3, *(len(each.why) for each in self.messages), 0)
        lines += ["", f"sent  role       tokens  {'why':{why}}  message".rstrip()]
        for each in self.messages:
            sent = "yes" if each.sent else "no"
            line = f"{sent:4}  {each.role:9}  {each.tokens:6}  {each.why:{why}}  {each.preview}"
            lines.append(line.rstrip())
        return "\n".join(lines)


def explain(selection: Selection) -> Explanation:
    """Explain a selection that was made of the complete conversation."""
    window, system, chosen = selection.window, selection.system, selection.chosen
    budget = {
        "system messages": sum(each.tokens for each in system),
        "messages": sum(each.tokens for each in chosen[len(system) :]),
        "tools": selection.budget.extra_tokens,
        "reply": selection.budget.reserve_tokens,
    }
    if (left := _tokens_left(selection)) is not None:
        budget["left"] = left
    others = (_explained(*decision) for decision in _decisions(selection))
    messages = (*map(_explain_system, system), *others)
    return Explanation(repr(window), budget, selection.budget.ratio, messages)


def _tokens_left(selection: Selection) -> int | None:
    """Return the tokens that the request does not use; None without a limit."""
    window = selection.window
    if not isinstance(window, DropOldest) or window.max_tokens is None:
        return None
    available = selection.budget.available(window.max_tokens)
    return available - sum(each.tokens for each in selection.chosen)


def newly_dropped(
    selection: Selection, before: Selection | None, most: int = 20
) -> list[tuple[Counted, str]]:
    """Return the messages that a request leaves out and the previous one did not, with reasons.

    The cost depends on the length of the requests, not of the conversation. In the usual case
    nothing was dropped since the previous request, which two comparisons show.

    Args:
        selection: The selection of the request.
        before: The selection of the previous request; None for the first one, which leaves out
            everything that its window drops.
        most: The maximum number of messages for a first request, the newest ones.
    """
    chosen, rest = selection.chosen, selection.rest
    is_complete = len(chosen) == len(selection.system) + len(rest)
    if before is None:
        if is_complete:
            return []
    elif _oldest(selection) <= _oldest(before) and (is_complete or _drops_oldest(selection.window)):
        return []
    sent = {each.index for each in chosen}
    pinned = [each.message for each in chosen if each.index < 0]
    earlier = () if before is None else before.chosen
    known = [each for each in earlier if each.index >= 0 and each.message.role != "system"]
    if known:
        newest = max(each.index for each in known)
        new = takewhile(lambda each: each.index > newest, reversed(rest))
        candidates = [*known, *reversed([*new])]
    else:
        candidates = [*rest[max(0, len(rest) - len(chosen) - most) :]]
    unsent = (each for each in candidates if each.index not in sent)
    dropped = [each for each in unsent if each.message not in pinned]
    dropped = dropped if known else dropped[-most:]
    if not dropped:
        return []
    begin = bisect_left(rest, dropped[0].index, key=lambda each: each.index)
    decisions = _decisions(replace(selection, rest=rest[begin:]))
    reasons = {each.index: why for each, is_sent, why in decisions if not is_sent}
    return [(each, reasons.get(each.index, "replaced by a summary")) for each in dropped]


def _oldest(selection: Selection) -> int:
    """Return the index of the oldest message that the window could drop; -1 without one."""
    system, chosen = len(selection.system), selection.chosen
    return chosen[system].index if len(chosen) > system else -1


def _explain_system(message: Counted) -> Explained:
    if message.index >= 0:
        return _explained(message, True, "always sent")
    if not is_summary(message.message):
        return _explained(message, True, "pinned")
    _, _, summary = message.message.text.partition("\n")  # without its header
    return replace(_explained(message, True, "the summary"), preview=_preview(summary))


def _drops_oldest(window: object) -> TypeIs[DropOldest]:
    """Whether a window drops the oldest messages; a derived one may select in another way."""
    return isinstance(window, DropOldest) and type(window).select == DropOldest.select


def _decisions(selection: Selection) -> Iterator[tuple[Counted, bool, str]]:
    """Yield each message behind the system messages, whether it is sent, and why.

    The exchange that was dropped last shows the reason.
    """
    rest, chosen = selection.rest, selection.chosen[len(selection.system) :]
    window = selection.window
    if not _drops_oldest(window):
        yield from _custom_decisions(rest, chosen)
        return
    start = len(rest) - len(chosen)
    begin = exchange_start(rest, start)
    reason = _reason(window, selection, rest[begin:start])
    for index, message in enumerate(rest[:start]):
        yield message, False, "older than what did not fit" if index < begin else reason
    for message in chosen:
        yield message, True, ""


def _custom_decisions(
    rest: Sequence[Counted], chosen: Sequence[Counted]
) -> Iterator[tuple[Counted, bool, str]]:
    """Yield the decisions of a window whose rule is unknown."""
    sent, known = {id(each) for each in chosen}, {id(each) for each in rest}
    for message in rest:
        is_sent = id(message) in sent
        yield message, is_sent, "" if is_sent else "not chosen by the window"
    for message in chosen:
        if id(message) not in known:
            yield message, True, "written by the window"


def _reason(window: DropOldest, selection: Selection, exchange: Sequence[Counted]) -> str:
    tokens, left = sum(each.tokens for each in exchange), _tokens_left(selection)
    if left is not None and tokens > left:
        return f"does not fit: {tokens} needed, {left} left"
    sent = len(selection.chosen) - len(selection.system)
    messages_left = window.messages_left(selection.system) - sent
    return f"too many messages: {len(exchange)} more, {messages_left} left"


def _explained(counted: Counted, sent: bool, why: str) -> Explained:
    message = counted.message
    text = message.text or ", ".join(f"calls {call.name}" for call in message.tool_calls)
    return Explained(counted.index, message.role, _preview(text), counted.tokens, sent, why)


def _preview(text: str) -> str:
    """Return the beginning of a text in one line, without control characters."""
    line = " ".join(text[: _PREVIEW * 8].split())
    line = "".join(letter if letter.isprintable() else "�" for letter in line)
    return line if len(line) <= _PREVIEW else f"{line[: _PREVIEW - 1]}…"
