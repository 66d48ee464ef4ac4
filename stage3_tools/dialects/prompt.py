"""`PromptDialect`: tools in the system prompt, decisions as JSON text.

For models that follow an instruction to answer with JSON; the server needs no tool calls. The one
system message describes the tools, the model replies with a decision, and results are user messages
that begin with `[Tool result for NAME]`. Feedback begins with `[Feedback]`, and a summary with
`[Summary of earlier messages, ...]`. A line of a user, a tool or a summary that imitates such a
header is escaped.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

from stage0_gateway import ChatResponse, Message, TextPart, ToolCall
from stage2_output import OutputController, ParseResult, feedback, parse_partial
from stage3_tools.decision import DecisionRules, Strict, parse_tool_decisions
from stage3_tools.dialects.escaping import escape, escape_text, is_from_framework
from stage3_tools.dialects.protocol import (
    LAST_REQUEST,
    FinalReply,
    InvalidReply,
    ReplyInterpretation,
    RequestParts,
    ToolCalls,
    truncation_feedback,
    with_instructions,
)
from stage3_tools.registry import ToolRegistry

_WITH_TOOLS = """\
You can use tools. Answer with exactly one JSON object and nothing else.
To call a tool: {"tool": "<name>", "arguments": {<what its parameters ask for>}}
To answer the user: {"tool": null, "reply": "<your answer>"}
Call one tool at a time. Its result comes back in a message that begins with \
[Tool result for <name>]; then call another tool or answer. Do not invent results.
The tools, one per line, with a JSON Schema of their parameters:
"""
_WITH_MULTIPLE = """\
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

_NATIVE_CALLS = (
    "Do not use tool calls of your own. Write your decision as text: exactly one JSON object."
)

_TEXT_REPLY, _TYPED_REPLY = '"<your answer>"', "<your answer as a JSON value>"
_OUTPUT = "The JSON Schema of your answer, which is a JSON value and not a text:"

_ENCODER = json.JSONEncoder(ensure_ascii=False)
_RENDERED = "prompt dialect"  # the key of a message's rendered form


def build_tool_system_prompt(registry: ToolRegistry, *, multiple: bool = False) -> str:
    """Return the instructions for the model: the tools, and how to call them.

    Args:
        registry: The tools. Without tools, the instructions request a reply.
        multiple: Whether the model may call several tools in one reply.
    """
    tools = registry.described()
    if not tools:
        return _WITHOUT_TOOLS
    return (_WITH_MULTIPLE if multiple else _WITH_TOOLS) + tools


class PromptDialect:
    """Tools in the system prompt, decisions as JSON text.

    Args:
        controller: The parser of stage 2; None creates one.
        multiple: Whether the model may call several tools in one reply, with a JSON list of calls.
        strict: Which calls must be the whole reply: "writes", those of tools with the effect
            "write"; "always", all; or "never". A model that refuses a call that a web page demands
            often quotes it, and the end of a reply does not distinguish an answer from a quotation.
        thinking_opened: Whether the chat template of the model opens its thinking, so that the
            first closing tag, such as `</think>`, ends it.

    The settings are also attributes.

    Raises:
        ValueError: `strict` has another value.
    """

    def __init__(
        self,
        controller: OutputController | None = None,
        *,
        multiple: bool = False,
        strict: Strict = "writes",
        thinking_opened: bool = False,
    ) -> None:
        if strict not in get_args(Strict):
            raise ValueError(f"strict is {strict!r}; use 'writes', 'always' or 'never'.")
        if not isinstance(controller, OutputController | None):
            raise TypeError(f"controller must be an OutputController, not {controller!r:.80}.")
        self._controller = controller or OutputController()
        self.multiple, self.strict, self.thinking_opened = multiple, strict, thinking_opened
        self._system = Message.system("")
        self._rules = DecisionRules(multiple, strict, thinking_opened)

    def for_output(self, schema: Any) -> "PromptDialect":
        """Return a dialect whose final replies are JSON for a JSON Schema, not text."""
        dialect = PromptDialect(
            self._controller,
            multiple=self.multiple,
            strict=self.strict,
            thinking_opened=self.thinking_opened,
        )
        dialect._rules = replace(self._rules, output=schema)
        return dialect

    def describe(self, registry: ToolRegistry) -> str:
        """Return the tool part of the system prompt."""
        return self._for_reply(build_tool_system_prompt(registry, multiple=self.multiple))

    def render(
        self, transcript: Sequence[Message], registry: ToolRegistry, *, last: bool = False
    ) -> RequestParts:
        """Render the history as text behind one system message, which describes the tools."""
        instructions = self._for_reply(_LAST) if last else self.describe(registry)
        system, *others = with_instructions(transcript, instructions)
        # The same objects in each turn, so that their own encodings stay cached.
        if system.content != self._system.content:
            self._system = system
        rendered = [
            message.encoded(_RENDERED, _rendered)
            if message.name or message.role != "tool"
            else _rendered(_with_name(message, transcript))
            for message in others
        ]
        return RequestParts((self._system, *rendered))

    def _for_reply(self, instructions: str) -> str:
        """The instructions, changed if the reply has a type."""
        if self._rules.output is None:
            return instructions
        instructions = instructions.replace(_TEXT_REPLY, _TYPED_REPLY)
        return f"{instructions}\n{_OUTPUT}\n{_ENCODER.encode(self._rules.output)}"

    def read(self, response: ChatResponse, registry: ToolRegistry) -> ReplyInterpretation:
        """Parse the decision in the text of a reply, or its list of calls."""
        text = response.content
        if response.finish_reason == "length":
            problem = truncation_feedback(response, "one JSON object")
            return InvalidReply(Message.assistant(text, raw_text=text), problem)
        decisions = parse_tool_decisions(self._controller, text, registry, self._rules)
        if isinstance(decisions, ParseResult):
            problem = _NATIVE_CALLS if response.tool_calls else feedback(decisions)
            return InvalidReply(Message.assistant(text, raw_text=text), problem, decisions.errors)
        first = decisions[0]
        if first.tool is None:
            return FinalReply(Message.assistant(first.reply or "", raw_text=text), first.repairs)
        comment = "\n".join([decision.reply for decision in decisions if decision.reply])
        calls = [
            ToolCall("", made.tool or "", _ENCODER.encode(made.arguments)) for made in decisions
        ]
        return ToolCalls(Message.assistant(comment, calls, raw_text=text), first.repairs)

    def visible_text(self, partial_reply: str) -> str:
        """Return the reply in the incomplete JSON of a decision; "" if it has not begun.

        A reply of a type is returned as JSON text.
        """
        value = parse_partial(partial_reply).value
        if not isinstance(value, dict) or value.get("tool") is not None:
            return ""
        reply = value.get("reply")
        if self._rules.output is not None:
            return "" if reply is None else _ENCODER.encode(reply)
        return reply if isinstance(reply, str) else ""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the dialect."""
        return {
            "multiple": self.multiple,
            "strict": self.strict,
            "thinking_opened": self.thinking_opened,
        }


def _with_name(result: Message, transcript: Sequence[Message]) -> Message:
    """Add the name of the tool to a result without one; the call contains it."""
    calls = (call for message in transcript for call in message.tool_calls)
    name = next((call.name for call in calls if call.id == result.tool_call_id), None)
    return replace(result, name=name)


def _rendered(message: Message) -> Message:
    """Render a stored message as text."""
    if message.role == "assistant":
        text = _as_decision(message) if message.raw_text is None else message.raw_text
        return Message.assistant(text)
    if message.role == "tool":
        name = " ".join((message.name or "a tool").split())[:200].replace("]", ")")
        header, content = f"[Tool result for {name}]\n", escape(message.content)
        if isinstance(content, str):
            return Message.user(header + content)
        return Message.user((TextPart(header), *content))
    if is_from_framework(message):
        header, text = message.text.split("\n", 1)
        return Message.user(f"{header}\n{escape_text(text)}")
    return Message.user(escape(message.content))


def _as_decision(message: Message) -> str:
    """Convert a message of another dialect to the text of a decision."""
    if not message.tool_calls:
        return _ENCODER.encode({"tool": None, "reply": message.text})
    calls = [
        f'{{"tool": {_ENCODER.encode(call.name)}, "arguments": {call.arguments}}}'
        for call in message.tool_calls
    ]
    return calls[0] if len(calls) == 1 else f"[{', '.join(calls)}]"
