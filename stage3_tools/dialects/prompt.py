"""`PromptDialect`: tools described in the system prompt, decisions as JSON text.

Works with every model that can write, because it needs nothing of the provider: the tools stand in
the one system message, the model answers with a decision, and results go back as user messages that
begin with `[Tool result for NAME]`, feedback in ones that begin with `[Feedback]`. A line of a user
or a tool that imitates such a header is escaped.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from stage0_gateway import ChatResponse, Message, Part, TextPart, ToolCall
from stage2_output import OutputController, ParseResult, feedback
from stage3_tools.decision import ToolDecision, parse_tool_decision, parse_tool_decisions
from stage3_tools.dialects.escaping import FEEDBACK, escaped, escaped_text, is_feedback
from stage3_tools.dialects.protocol import (
    LAST_REQUEST,
    Calls,
    FinalReply,
    Reading,
    RequestParts,
    Unusable,
    cut_off,
    with_instructions,
)
from stage3_tools.registry import ToolRegistry

_WITH_TOOLS = """\
You can use tools. Answer with exactly one JSON object and nothing else.
To call a tool: {"tool": "<name>", "arguments": {<what its parameters ask for>}}
To answer the user: {"tool": null, "reply": "<your answer>"}
Call one tool at a time. Its result comes back in a message that begins with [Tool result for <name>]; \
then call another tool or answer. Do not invent results.
The tools, one per line, with a JSON Schema of their parameters:
"""
_WITH_SEVERAL = """\
You can use tools. Answer with exactly one JSON value and nothing else.
To call a tool: {"tool": "<name>", "arguments": {<what its parameters ask for>}}
To call several that do not need each other's results: a list of such objects; they run at once.
To answer the user: {"tool": null, "reply": "<your answer>"}
Results come back in call order, in messages that begin with [Tool result for <name>]; \
then call further tools or answer. Do not invent results.
The tools, one per line, with a JSON Schema of their parameters:
"""
_WITHOUT_TOOLS = """\
No tools can be called. Answer the user now, with what you know and what the tool results say.
Answer with exactly one JSON object and nothing else: {"tool": null, "reply": "<your answer>"}"""
_LAST = f"""\
{LAST_REQUEST}
Answer with exactly one JSON object and nothing else: {{"tool": null, "reply": "<your answer>"}}"""

_AS_IT_IS = json.JSONEncoder(ensure_ascii=False)
_RENDERED = "prompt dialect"

_NATIVE = "Do not use tool calls of your own. Write your decision as text: exactly one JSON object."


def build_tool_system_prompt(registry: ToolRegistry, *, multiple: bool = False) -> str:
    """What the model is told of the tools, and of how to ask for them.

    Args:
        registry: The tools; if it is empty, the model is told to answer without.
        multiple: Whether it may ask for several at once.
    """
    if not len(registry):
        return _WITHOUT_TOOLS
    return (_WITH_SEVERAL if multiple else _WITH_TOOLS) + "\n".join(
        [tool.as_json for tool in registry.list()]
    )


class PromptDialect:
    """Tools by text.

    Args:
        controller: Stage 2's reader; None makes one.
        multiple: Whether the model may ask for several tools at once, with a JSON list of calls.
    """

    def __init__(
        self, controller: OutputController | None = None, *, multiple: bool = False
    ) -> None:
        self._controller = controller or OutputController()
        self._multiple = multiple

    def describe(self, registry: ToolRegistry) -> str:
        """The tool part of the system prompt."""
        return build_tool_system_prompt(registry, multiple=self._multiple)

    def render(
        self, transcript: Sequence[Message], registry: ToolRegistry, *, last: bool = False
    ) -> RequestParts:
        """One system message with the tools in it, then the history as text; the last request
        describes no tools.
        """
        prompt, *rest = with_instructions(transcript, _LAST if last else self.describe(registry))
        rendered = [
            message.encoded(
                _RENDERED, _rendered
            )  # the same object each turn, so its own encoding is kept
            if message.name or message.role != "tool"
            else _nameless(message, transcript)
            for message in rest
        ]
        return RequestParts((prompt, *rendered))

    def read(self, response: ChatResponse) -> Reading:
        """The decision in the reply's text, or several calls, or feedback."""
        text, why = response.content, response.finish_reason
        decisions = self._decisions(text, why)
        if isinstance(decisions, ParseResult):
            return Unusable(
                Message.assistant(text, raw_text=text), self._feedback(response, decisions)
            )
        first = decisions[0]
        if first.tool is None:
            return FinalReply(Message.assistant(first.reply or "", raw_text=text), first.repairs)
        said = "\n".join(each.reply for each in decisions if each.reply)
        return Calls(Message.assistant(said, map(_call, decisions), raw_text=text), first.repairs)

    def _feedback(self, response: ChatResponse, wrong: ParseResult) -> str:
        if response.finish_reason == "length":
            return cut_off(response, "one JSON object")
        return _NATIVE if response.tool_calls else feedback(wrong)

    def _decisions(self, text: str, why: str) -> Sequence[ToolDecision] | ParseResult:
        if self._multiple:
            return parse_tool_decisions(self._controller, text, finish_reason=why)
        decision = parse_tool_decision(self._controller, text, finish_reason=why)
        return decision if isinstance(decision, ParseResult) else [decision]


def _call(decision: ToolDecision) -> ToolCall:
    return ToolCall("", decision.tool or "", _AS_IT_IS.encode(decision.arguments))


def _nameless(message: Message, transcript: Sequence[Message]) -> Message:
    """A result that does not say whose it is, under the name in its call."""
    calls = (call for each in transcript for call in each.tool_calls)
    name = next((call.name for call in calls if call.id == message.tool_call_id), None)
    return _rendered(replace(message, name=name))


def _rendered(message: Message) -> Message:
    if message.role == "tool":
        return Message.user(_with_header(message.name or "a tool", message.content))
    if message.role == "assistant":
        return Message.assistant(
            _as_decision(message) if message.raw_text is None else message.raw_text
        )
    if is_feedback(message):
        return Message.user(FEEDBACK + escaped_text(message.text.removeprefix(FEEDBACK)))
    return Message.user(escaped(message.content))


def _with_header(name: str, content: str | tuple[Part, ...]) -> str | tuple[Part, ...]:
    header = f"[Tool result for {' '.join(name.split())[:200].replace(']', ')')}]\n"
    content = escaped(content)
    return header + content if isinstance(content, str) else (TextPart(header), *content)


def _as_decision(message: Message) -> str:
    """A message that was not written in this dialect, as if it had been."""
    if not message.tool_calls:
        return json.dumps({"tool": None, "reply": message.text}, ensure_ascii=False)
    calls = [
        f'{{"tool": {json.dumps(call.name, ensure_ascii=False)}, "arguments": {call.arguments}}}'
        for call in message.tool_calls
    ]
    return calls[0] if len(calls) == 1 else f"[{', '.join(calls)}]"
