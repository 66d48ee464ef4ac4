"""Runs the first JSON object that it finds in a text, also a quoted one.

Caught by: L-050
Seen in: a reply that refused an injected call, and quoted it
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from examples.from_scratch import context, output
from examples.from_scratch.gateway import Message, Reply

# ---- Step 1: Tool


class Tool(NamedTuple):
    """A function that the model may call.

    Attributes:
        spec: What the model sees: `name`, `description`, and the JSON Schema of its `parameters`.
        function: The function; it receives the arguments by name.
    """

    spec: dict[str, Any]
    function: Callable[..., Any]


def registry(*tools: Tool) -> dict[str, Tool]:
    """Return the tools by name."""
    by_name = {tool.spec["name"]: tool for tool in tools}
    if list(by_name.values()) != list(tools):  # a tool has replaced another one
        raise ValueError("Two tools have the same name.")
    return by_name


# ---- Step 2: Describe

INSTRUCTIONS = """You can use tools. Answer with exactly one JSON object and nothing else.
To call a tool: {"tool": "<name>", "arguments": {<its parameters>}}
To answer the user: {"tool": null, "reply": "<your answer>"}
The result of a call comes in a message that begins with [Tool result for <name>].
The tools, one per line, with a JSON Schema of their parameters:"""


def as_text(messages: Sequence[Message], tools: dict[str, Tool]) -> list[Message]:
    """Return the messages for a model that reads only text; the tools come first."""
    system = [message["content"] for message in messages if message["role"] == "system"]
    lines = [json.dumps(tool.spec, ensure_ascii=False) for tool in tools.values()]
    system.append("\n".join([INSTRUCTIONS, *lines]))
    texts = [context.system("\n\n".join(system))]  # one, because some servers refuse two
    name = ""
    for message in messages:
        text = message["content"]
        if message["role"] == "tool":
            texts.append(context.user(f"[Tool result for {name}]\n{text}"))
        elif message["role"] != "system":
            texts.append({"role": message["role"], "content": text})
        for call in message.get("tool_calls", []):  # at most one in this dialect
            name = call["function"]["name"]
    return texts


# ---- Step 3: Decide

DECISION = {
    "properties": {"tool": {"type": ["string", "null"]}, "arguments": {"type": ["object", "null"]}},
    "required": ["tool"],
    "type": "object",
    "if": {"properties": {"tool": {"type": "null"}}},
    "then": {"properties": {"reply": {"type": "string", "pattern": r"\S"}}, "required": ["reply"]},
}


class Decision(NamedTuple):
    """What a reply means: calls to run, an answer, or a problem that the model should correct."""

    calls: Sequence[dict[str, Any]] = ()
    answer: str = ""
    problem: str = ""


def decide(reply: Reply, dialect: str) -> Decision:
    """Return the meaning of a reply."""
    if reply.finish_reason not in ("stop", "tool_calls"):  # half a call must not run
        return Decision(problem="Your reply was cut off, so nothing was used. Write a shorter one.")
    text, calls = reply.message["content"], reply.message.get("tool_calls", [])
    match dialect:
        case "prompt":
            return decide_text(text)
    return Decision(calls, text, "" if calls or text.strip() else "Your reply was empty.")


def decide_text(text: str) -> Decision:
    """Return the decision in a text. It must be the whole text: a part of it may be a quotation."""
    try:
        value = output.read(text, DECISION).value
    except ValueError:
        value = None
    if issues := output.validate(value, DECISION):
        return Decision(problem=output.describe(issues))
    if value["tool"] is None:
        return Decision(answer=value["reply"])
    function = {"name": value["tool"], "arguments": json.dumps(value.get("arguments") or {})}
    return Decision([{"id": "call_0", "type": "function", "function": function}])


# ---- Step 4: Run


def run(call: dict[str, Any], tools: dict[str, Tool]) -> Message:
    """Run one call, and return its one result. An error is a result too: the model reads it."""
    name, text = call["function"]["name"], call["function"]["arguments"]
    try:
        if name not in tools:
            raise LookupError(f"Unknown tool {name!r}. The tools are {list(tools)}.")
        arguments = output.strict(text)  # without repairs, because the call may change something
        if issues := output.validate(arguments, tools[name].spec["parameters"]):
            raise ValueError("Invalid arguments: " + "; ".join(issues))
        result = tools[name].function(**arguments)
        result = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    except Exception as error:
        result = f"Error: {type(error).__name__}: {error}"
    return context.tool_result(call["id"], result)


# ---- Step 5: Loop

Ask = Callable[[Sequence[Message], Sequence[Any]], Awaitable[Reply]]
"""Sends messages and tools to a model, such as `Gateway.chat`."""

MAX_TURNS, MAX_TOKENS = 8, 8000
"""The limits: requests for one question, and tokens of the messages in one request."""


class TurnLimit(Exception):
    """The model did not answer within the limit."""


async def answer(
    question: str, history: context.History, ask: Ask, tools: dict[str, Tool], dialect: str
) -> str:
    """Add a question to the history, run the calls that it needs, and return the answer."""
    history.add(context.user(question))
    specs = [tool.spec for tool in tools.values()]
    for _ in range(MAX_TURNS):
        messages = context.window(context.repair(history.messages), MAX_TOKENS)
        requests = {"prompt": (as_text(messages, tools), []), "native": (messages, specs)}
        reply = await ask(*requests[dialect])
        decision = decide(reply, dialect)

        message = {"role": "assistant", "content": reply.message["content"] or "(no text)"}
        if decision.calls:  # the calls of a problem are not stored, so no call stays open
            message["tool_calls"] = decision.calls
        history.add(message)
        for call in decision.calls:
            history.add(run(call, tools))

        if decision.problem:
            history.add(context.feedback(decision.problem))
        elif not decision.calls:
            return decision.answer
    raise TurnLimit(f"No answer after {MAX_TURNS} requests.")
