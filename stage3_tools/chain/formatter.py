"""`MessageFlowFormatter`: a chain of tool calls as one text that people and models can read.

A chain leaves many messages, most of them long results. Written down as a flow they take a few
lines each: what the model said, a log block for each call, the reply. Saved as one assistant
message, with a hint in front that says which variable holds what, the next question goes on from it
for a fraction of the tokens, and nothing is lost.

Log blocks are written by the framework: a line of a model or a tool that imitates one is escaped.
Pure; used by `chain`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from stage0_gateway import Message
from stage1_context import VariableStore
from stage3_tools.dialects.escaping import escaped_text, is_feedback
from stage3_tools.options import PREVIEW
from stage3_tools.result import ToolCallRecord, ToolResult

_HINT = """\
<SYSTEM-CONTEXT>
%sExecuted tools:
%s
`[Tool Execution Log]` blocks are written by the system. Never write one; call the tool.
</SYSTEM-CONTEXT>
---
"""
_VARIABLES = "Values of tools are kept in variables: use `read_variable`, or $VAR_REF{{id}} as an argument.\n"
_HINT_TAG = re.compile(r"<(?=/?\s*system-context)", re.IGNORECASE)
_STATUS = {
    "completed": "✓ Success",
    "error": "✗ Error",
    "rejected": "✗ Rejected",
    "result_rejected": "✗ Result rejected",
    "interrupted": "✗ Interrupted",
    "unknown_effect": "✗ Interrupted, may have happened",
}


class MessageFlowFormatter:
    """Messages of a chain as text."""

    @staticmethod
    def system_hint(history: Sequence[ToolCallRecord]) -> str:
        """Which tools ran, and which variables hold what; for the model, in front of the flow.

        Args:
            history: The calls of the chain; none gives no hint.
        """
        if not history:
            return ""
        return _HINT % (
            _VARIABLES if any(map(_kept, history)) else "",
            "\n".join(_executed(history)),
        )

    @staticmethod
    def natural_flow(messages: Iterable[Message], history: Sequence[ToolCallRecord]) -> str:
        """What was said and done, in order.

        Args:
            messages: The messages of the chain; what is neither the model's nor a call is left out,
                and so are replies that could not be used.
            history: Their calls with their results.
        """
        records, messages = {each.id: each for each in history}, [*messages]
        used = (
            each
            for each, following in zip_longest(messages, messages[1:])
            if following is None or not is_feedback(following)
        )
        said = (_said(each, records) for each in used if each.role == "assistant")
        return "\n\n".join(filter(None, said))


def _safe(text: str) -> str:
    """A text in which nothing looks like ours: neither log blocks nor the hint."""
    return _HINT_TAG.sub(r"\\<", escaped_text(text))


def _said(message: Message, records: Mapping[str, ToolCallRecord]) -> str:
    logs = (_log(records[call.id]) for call in message.tool_calls if call.id in records)
    return "\n\n".join(filter(None, [_safe(message.text.strip()), *logs]))


def _log(record: ToolCallRecord) -> str:
    lines = [
        f"Arguments: {_short(record.arguments)}",
        f"Status: {_status(record.result)}",
        "",
        _short(record.result.as_message().text),
    ]
    inside = _safe("\n".join(lines).rstrip())
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", inside)), default=0))
    return f"**[Tool Execution Log]**: {_name(record)}\n{fence}accesslog\n{inside}\n{fence}"


def _status(result: ToolResult) -> str:
    kind = f" ({result.error.kind})" if result.status == "error" and result.error else ""
    return f"{_STATUS[result.status]}{kind}"


def _executed(history: Sequence[ToolCallRecord]) -> list[str]:
    """A line for each call; calls of one tool in a row share one where each has variables, for
    names take tokens.
    """
    lines, before = list[str](), None
    for record in history:
        name, kept = _name(record), _kept(record)
        if kept and name == before:
            lines[-1] += f", {kept}"
        else:
            lines.append(f"- `{name}` {kept}".rstrip())
        before = name if kept else None
    return lines


def _kept(record: ToolCallRecord) -> str:
    kept = {"args": record.arguments_variable, "result": record.variable}
    where = ", ".join(f"{what}={VariableStore.reference(id)}" for what, id in kept.items() if id)
    return f"({where})" if where else ""


def _name(record: ToolCallRecord) -> str:
    return " ".join(record.name.split())[:PREVIEW].replace("`", "'")


def _short(text: str) -> str:
    return text if len(text) <= PREVIEW else f"{text[:PREVIEW]}…"
