"""`Explanation`: what a window shows of a conversation, what it leaves out, and why. For people.

Pure: it looks at a `Selection` and chooses nothing itself. `print(await engine.explain(session))`
is a table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from stage1_context.tokens import Counted
from stage1_context.view.selection import Selection
from stage1_context.window import DropOldest, exchange_start

_PREVIEW = 40


@dataclass(frozen=True, slots=True)
class Explained:
    """A message, and what became of it.

    Attributes:
        index: Where in the journal it stands; -1 for what does not, such as a summary.
        role: Who speaks.
        preview: How it begins.
        tokens: What it takes, by our own counting.
        sent: Whether it is sent.
        why: Why it is, or is not.
    """

    index: int
    role: str
    preview: str
    tokens: int
    sent: bool
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a window made of a conversation.

    Attributes:
        window: The window, in words.
        budget: What takes how many tokens, by our own counting; "left" is what nothing takes.
        ratio: How many tokens of the server one of ours was found to be.
        messages: Every message there is to show, oldest first.
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
        taken = " + ".join(
            f"{tokens} {name}" for name, tokens in self.budget.items() if name != "left"
        )
        left = f", {self.budget['left']} left" if "left" in self.budget else ""
        lines = [self.window, f"tokens: {taken}{left}"]
        if self.ratio != 1.0:
            lines.append(
                f"The server counts {self.ratio:.2f} for each of these, the reply's apart."
            )
        # The text comes last: some alphabets are twice as wide, and nothing could be lined up
        # behind them.
        why = max(3, *(len(each.why) for each in self.messages), 0)
        lines += ["", f"sent  role       tokens  {'why':{why}}  message".rstrip()]
        for each in self.messages:
            sent = "yes" if each.sent else "no"
            lines.append(
                f"{sent:4}  {each.role:9}  {each.tokens:6}  {each.why:{why}}  {each.preview}".rstrip()
            )
        return "\n".join(lines)


def explain(selection: Selection) -> Explanation:
    """Say why each message is sent or not."""
    token_budget, window = selection.budget, selection.window
    budget = {
        "system messages": sum(each.tokens for each in selection.system),
        "messages": sum(each.tokens for each in selection.chosen[len(selection.system) :]),
        "tools": token_budget.extra_tokens,
        "reply": token_budget.reserve_tokens,
    }
    if isinstance(window, DropOldest) and window.max_tokens is not None:
        budget["left"] = token_budget.available(window.max_tokens) - sum(
            each.tokens for each in selection.chosen
        )
    fixed = [_fixed(each) for each in selection.system]
    return Explanation(
        repr(window), budget, token_budget.ratio, (*fixed, *_rest(selection, budget.get("left")))
    )


def _rest(selection: Selection, left: int | None) -> Iterator[Explained]:
    """The other messages; where the window keeps the newest, the exchange that was dropped last
    says why.
    """
    rest, chosen = selection.rest, selection.chosen[len(selection.system) :]
    start = len(rest) - len(chosen)
    newest = [each.index for each in chosen] == [each.index for each in rest[max(0, start) :]]
    if not (isinstance(selection.window, DropOldest) and newest):
        yield from _any(rest, chosen)
        return
    begin = exchange_start(rest, start)
    reason = _reason(selection.window, selection, rest[begin:start], left)
    for place, each in enumerate(rest[:start]):
        yield _explained(each, False, "older than what did not fit" if place < begin else reason)
    for kept, whole in zip(chosen, rest[start:], strict=True):
        yield _explained(kept, True, "" if kept is whole else f"cut from {whole.tokens} tokens")


def _any(rest: Sequence[Counted], chosen: Sequence[Counted]) -> Iterator[Explained]:
    """What a window did whose rule is not known here."""
    sent, known = {id(each) for each in chosen}, {id(each) for each in rest}
    for each in rest:
        yield _explained(
            each, id(each) in sent, "" if id(each) in sent else "not chosen by the window"
        )
    for each in chosen:
        if id(each) not in known:
            yield _explained(each, True, "written by the window")


def _fixed(each: Counted) -> Explained:
    if each.index >= 0:
        return _explained(each, True, "always sent")
    if each.message.role != "system":
        return _explained(each, True, "pinned")
    _, _, summary = each.message.text.partition("\n")  # without its heading
    return replace(_explained(each, True, "the summary"), preview=_preview(summary))


def _reason(
    window: DropOldest, selection: Selection, exchange: Sequence[Counted], left: int | None
) -> str:
    needed, places = sum(each.tokens for each in exchange), window.messages_left(selection.system)
    places -= len(selection.chosen) - len(selection.system)
    if left is not None and needed > left:
        return f"does not fit: {needed} needed, {left} left"
    if len(exchange) > places:
        return f"too many messages: {len(exchange)} more, {places} left"
    return "even the newest had to be cut"


def _explained(each: Counted, sent: bool, why: str) -> Explained:
    message = each.message
    text = message.text or ", ".join(f"calls {call.name}" for call in message.tool_calls)
    if not text and not isinstance(message.content, str):
        text = ", ".join(type(part).__name__ for part in message.content)
    return Explained(each.index, message.role, _preview(text), each.tokens, sent, why)


def _preview(text: str) -> str:
    """How a text begins, in one line."""
    line = " ".join(text[: _PREVIEW * 8].split())
    # What moves a cursor, or cannot be printed at all, must not spoil the table.
    line = "".join(letter if letter.isprintable() else "�" for letter in line)
    return line if len(line) <= _PREVIEW else f"{line[: _PREVIEW - 1]}…"
