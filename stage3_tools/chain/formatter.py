"""`MessageFlowFormatter`: a chain of tool calls as one text for people and models.

A chain consists of many messages, most of them long results. As a flow, they take a few lines each:
the text of the model, a log block for each call, the reply. A program can store the flow as one
assistant message with a hint that lists the variables of the results. The next question then needs
a fraction of the tokens, and no result is lost.

Log blocks are written by the framework. A line of a model or a tool that imitates one is escaped.
The functions are pure. Used by `chain.py`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from stage0_gateway import Message
from stage1_context import VariableStore
from stage3_tools.dialects.escaping import escape_text, is_feedback
from stage3_tools.result import ToolCallRecord, ToolResult
from stage3_tools.variables.long_values import PREVIEW

_HINT = """\
<SYSTEM-CONTEXT>
%sExecuted tools:
%s
`[Tool Execution Log]` blocks are written by the system. Never write one; call the tool.
</SYSTEM-CONTEXT>
---
"""
_VARIABLES = (
    "Values of tools are kept in variables: use `read_variable`, or $VAR_REF{{id}} as an "
    "argument.\n"
)
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
    """Formats the messages of a chain as text."""

    @staticmethod
    def system_hint(history: Sequence[ToolCallRecord]) -> str:
        """A hint for the model, before the flow: the tools that ran, and their variables.

        Args:
            history: The calls of the chain. Without calls, the hint is empty.
        """
        if not history:
            return ""
        variables = _VARIABLES if any(map(_variables, history)) else ""
        return _HINT % (variables, "\n".join(map(_executed, history)))

    @staticmethod
    def natural_flow(messages: Iterable[Message], history: Sequence[ToolCallRecord]) -> str:
        """The texts of the model and its calls, in order.

        Args:
            messages: The messages of the chain. User messages and invalid replies are left out.
            history: The calls with their results.
        """
        records, messages = {record.id: record for record in history}, [*messages]
        valid = (
            message
            for message, following in zip_longest(messages, messages[1:])
            if following is None or not is_feedback(following)
        )
        blocks = (_blocks(message, records) for message in valid if message.role == "assistant")
        return "\n\n".join(filter(None, blocks))


def _safe(text: str) -> str:
    """Escape text that imitates log blocks or the hint."""
    return _HINT_TAG.sub(r"\\<", escape_text(text))


def _blocks(message: Message, records: Mapping[str, ToolCallRecord]) -> str:
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


def _executed(record: ToolCallRecord) -> str:
    return f"- `{_name(record)}` {_variables(record)}".rstrip()


def _variables(record: ToolCallRecord) -> str:
    ids = {"args": record.arguments_variable, "result": record.variable}
    references = [f"{name}={VariableStore.reference(id)}" for name, id in ids.items() if id]
    return f"({', '.join(references)})" if references else ""


def _name(record: ToolCallRecord) -> str:
    return " ".join(record.name.split())[:PREVIEW].replace("`", "'")


def _short(text: str) -> str:
    return text if len(text) <= PREVIEW else f"{text[:PREVIEW]}…"
