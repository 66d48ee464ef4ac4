"""`PromptDialect`: tools described in the system prompt, decisions as JSON text.

Works with every model that can write, because it needs nothing of the provider: the tools stand in the one
system message, the model answers with a decision, and results go back as user messages that begin with
`[Tool result for NAME]`. A line of a user or a tool that imitates such a beginning is escaped.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from weakref import WeakKeyDictionary

from stage0_gateway import ChatResponse, Message, Part, TextPart, ToolCall
from stage2_output import OutputController, feedback
from stage3_tools.decision import ToolDecision, parse_tool_decision
from stage3_tools.dialect import Calls, FinalReply, Reading, RequestParts, Unusable
from stage3_tools.registry import ToolRegistry

_WITH_TOOLS = """\
You can use tools. Answer with exactly one JSON object and nothing else.
To call a tool: {"tool": "<name>", "arguments": {<what its parameters ask for>}}
To answer the user: {"tool": null, "reply": "<your answer>"}
Call one tool at a time. Its result comes back in a message that begins with [Tool result for <name>]; \
then call another tool or answer. Do not invent results.
The tools, one per line, with a JSON Schema of their parameters:
"""
_WITHOUT_TOOLS = """\
No tools can be called. Answer the user now, with what you know and what the tool results say.
Answer with exactly one JSON object and nothing else: {"tool": null, "reply": "<your answer>"}"""

_NATIVE = "Do not use tool calls of your own. Write your decision as text: exactly one JSON object."

# Where a line, after any kind of line break, imitates the beginning of a result.
_BREAKS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_INVISIBLE = r"\u200b-\u200f\u2060\ufeff"
_FORGED = re.compile(
    rf"(?:^|(?<=[{_BREAKS}]))((?:[^\S{_BREAKS}]|[{_INVISIBLE}])*)\[(?=[\s{_INVISIBLE}]*tool\s+result)",
    re.IGNORECASE,
)


def build_tool_system_prompt(registry: ToolRegistry) -> str:
    """What the model is told of the tools, and of how to ask for them.

    Args:
        registry: The tools; if it is empty, the model is told to answer without.
    """
    if not len(registry):
        return _WITHOUT_TOOLS
    lines = []
    for tool in registry.list():
        shown = {"name": tool.name, "description": tool.description, "parameters": tool.parameters or {}}
        lines.append(json.dumps(shown, ensure_ascii=False))
    return _WITH_TOOLS + "\n".join(lines)


class PromptDialect:
    """Tools by text. Keeps the descriptions, so that each is built once per change of its registry.

    Args:
        controller: Stage 2's reader; None makes one.
    """

    def __init__(self, controller: OutputController | None = None) -> None:
        self._controller = controller or OutputController()
        self._described: WeakKeyDictionary[ToolRegistry, tuple[int, str]] = WeakKeyDictionary()

    def describe(self, registry: ToolRegistry) -> str:
        """The tool part of the system prompt."""
        now = registry.version  # before the description: another thread may add a tool meanwhile
        version, text = self._described.get(registry, (None, ""))
        if version != now:
            text = build_tool_system_prompt(registry)
            self._described[registry] = (now, text)
        return text

    def render(self, transcript: Sequence[Message], registry: ToolRegistry) -> RequestParts:
        """One system message with the tools in it, then the history as text."""
        system = [message.text for message in transcript if message.role == "system"]
        prompt = Message.system("\n\n".join([*system, self.describe(registry)]))
        names = {call.id: call.name for message in transcript for call in message.tool_calls}
        rest = (_rendered(message, names) for message in transcript if message.role != "system")
        return RequestParts((prompt, *rest))

    def read(self, response: ChatResponse) -> Reading:
        """The decision in the reply's text, or feedback."""
        text = response.content
        if response.tool_calls and not text.strip():
            return Unusable(Message.assistant(""), _NATIVE)
        decision = parse_tool_decision(self._controller, text, finish_reason=response.finish_reason)
        if not isinstance(decision, ToolDecision):
            cut = response.finish_reason == "length"
            return Unusable(
                Message.assistant(text, raw_text=text), _cut_off(response) if cut else feedback(decision)
            )
        if decision.tool is None:
            return FinalReply(Message.assistant(decision.reply or "", raw_text=text), decision.repairs)
        call = ToolCall("", decision.tool, json.dumps(decision.arguments, ensure_ascii=False))
        return Calls(Message.assistant(decision.reply or "", [call], raw_text=text), decision.repairs)


def _cut_off(response: ChatResponse) -> str:
    written = response.usage and response.usage.output_tokens
    after = f" after {written} tokens" if written else ""
    return (
        f"Your reply was cut off{after}, so nothing in it was used. Answer again, shorter: one JSON object."
    )


def _rendered(message: Message, names: Mapping[str, str]) -> Message:
    if message.role == "tool":
        name = message.name or names.get(message.tool_call_id or "", "a tool")
        return Message.user(_with_header(name, message.content))
    if message.role == "assistant":
        return Message.assistant(_as_decision(message) if message.raw_text is None else message.raw_text)
    return Message.user(_escaped(message.content))


def _with_header(name: str, content: str | tuple[Part, ...]) -> str | tuple[Part, ...]:
    header = f"[Tool result for {' '.join(name.split())[:200].replace(']', ')')}]\n"
    content = _escaped(content)
    return header + content if isinstance(content, str) else (TextPart(header), *content)


def _as_decision(message: Message) -> str:
    """A message that was not written in this dialect, as if it had been."""
    if not message.tool_calls:
        return json.dumps({"tool": None, "reply": message.text}, ensure_ascii=False)
    return "\n".join(
        f'{{"tool": {json.dumps(call.name, ensure_ascii=False)}, "arguments": {call.arguments}}}'
        for call in message.tool_calls
    )


def _escaped(content: str | tuple[Part, ...]) -> str | tuple[Part, ...]:
    if isinstance(content, str):
        return _FORGED.sub(r"\1\\[", content)
    escaped: list[Part] = []
    # Neighbouring texts are read as one, so they are looked at as one.
    for are_text, parts in groupby(content, lambda part: isinstance(part, TextPart)):
        together = tuple(parts)
        escaped += [TextPart(_FORGED.sub(r"\1\\[", Message.user(together).text))] if are_text else together
    return tuple(escaped)
