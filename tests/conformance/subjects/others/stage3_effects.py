"""Stage 3 as a generator of effects: it performs nothing itself.

`conversation` yields `Ask` and `RunCalls`, and receives replies and results. A driver performs the
effects: it runs the calls of one reply at the same time, in threads. The calls of a reply that was
cut off are stored too, with an error as result.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonschema

from tests.conformance.surroundings import Failure

Plain = dict[str, Any]

REQUESTS = 12
CHARACTERS = 28_000
CUT_OFF = "Your reply was cut off, so nothing of it was used. Write a shorter one."


class Unusable(Exception):
    """A reply or a call that the model should correct."""


# ---- effects


@dataclass
class Ask:
    """Send a request; the value is the reply."""

    messages: list[Plain]
    tools: list[Plain]


@dataclass
class RunCalls:
    """Run calls; the value is the list of their results, as texts."""

    calls: list[Plain]


Effects = Generator[Ask | RunCalls, Any, str]


# ---- values of JSON


def parsed(text: str) -> Any:
    """Parse one JSON value."""

    def checked(pairs: list[tuple[str, Any]]) -> Plain:
        value: Plain = {}
        for name, item in pairs:
            if name in value:
                raise Unusable(f"The name {name!r} appears twice.")
            value[name] = item
        return value

    def refused(name: str) -> None:
        raise Unusable(f"{name} is not a JSON value.")

    try:
        return json.loads(text, object_pairs_hook=checked, parse_constant=refused)
    except (ValueError, RecursionError) as error:
        raise Unusable(f"This is not JSON: {error}") from error


def without_trailing_commas(text: str) -> str:
    """Remove commas in front of a closing bracket, outside of strings."""
    kept: list[str] = []
    in_string = escaped = False
    for character in text:
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_string = True
        elif character in "]}":
            while kept and (kept[-1].isspace() or kept[-1] == ","):
                kept.pop()
        kept.append(character)
    return "".join(kept)


# ---- dialects


@dataclass
class Meaning:
    """The meaning of a complete reply: calls, or an answer."""

    calls: list[Plain] = field(default_factory=list)
    answer: str = ""


class Dialect(ABC):
    """How requests are written, and replies are read."""

    def __init__(self, tools: Mapping[str, Plain]) -> None:
        self.tools = tools

    @abstractmethod
    def request(self, messages: Sequence[Plain]) -> Ask:
        """The request for a conversation."""

    @abstractmethod
    def meaning(self, message: Plain) -> Meaning:
        """The meaning of a complete reply."""

    def read(self, reply: Plain) -> Meaning:
        """The meaning of a reply."""
        if reply.get("finish_reason", "stop") not in {"stop", "tool_calls"}:
            raise Unusable(CUT_OFF)
        return self.meaning(reply["message"])


class Native(Dialect):
    """The calls of the server."""

    def request(self, messages: Sequence[Plain]) -> Ask:
        return Ask(list(messages), list(self.tools.values()))

    def meaning(self, message: Plain) -> Meaning:
        if calls := message.get("tool_calls"):
            return Meaning(calls)
        if not message["content"].strip():
            raise Unusable("There was no text in your reply.")
        return Meaning(answer=message["content"])


class Prompt(Dialect):
    """Calls as JSON text."""

    def request(self, messages: Sequence[Plain]) -> Ask:
        instructions = [each["content"] for each in messages if each["role"] == "system"]
        instructions.append(self.description())
        found = [{"role": "system", "content": "\n\n".join(instructions)}]
        tool_names: dict[str, str] = {}
        for message in messages:
            for call in message.get("tool_calls", ()):
                tool_names[call["id"]] = call["function"]["name"]
            if message["role"] == "tool":
                header = f"[Tool result for {tool_names.get(message['tool_call_id'])}]"
                found.append({"role": "user", "content": f"{header}\n{message['content']}"})
            elif message["role"] != "system":
                found.append({"role": message["role"], "content": message["content"]})
        return Ask(found, [])

    def description(self) -> str:
        """What the model has to know about tools."""
        tools = json.dumps(list(self.tools.values()), ensure_ascii=False, indent=1)
        return (
            "Reply with a JSON object and nothing else, either "
            '{"tool": "name of a tool", "arguments": {}} or {"tool": null, "reply": "answer"}.\n'
            f"These are the tools:\n{tools}"
        )

    def meaning(self, message: Plain) -> Meaning:
        text = message["content"].strip()
        if text.startswith("<think>"):
            text = text.partition("</think>")[2].strip()
        lines = text.split("\n")
        if len(lines) > 2 and lines[0].startswith("```") and lines[-1] == "```":
            text = "\n".join(lines[1:-1])
        match parsed(without_trailing_commas(text)):
            case {"tool": None, "reply": str(answer)} if answer.strip():
                return Meaning(answer=answer)
            case {"tool": str(name), **others}:
                arguments = others.get("arguments")
                if not isinstance(arguments, dict | None):
                    raise Unusable("The arguments must be an object.")
                written = json.dumps(arguments or {}, ensure_ascii=False)
                function = {"name": name, "arguments": written}
                return Meaning([{"id": "written", "type": "function", "function": function}])
        raise Unusable("This is neither a call nor an answer.")


# ---- the conversation


def user(text: str) -> Plain:
    return {"role": "user", "content": text}


def result(call: Plain, text: str) -> Plain:
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


def conversation(messages: list[Plain], question: str, dialect: Dialect) -> Effects:
    """Answer a question; the messages grow in place."""
    messages[:] = completed(messages)
    start = len(messages)
    messages.append(user(question))
    for _ in range(REQUESTS):
        reply = yield dialect.request(fitting(messages, start))
        text, offered = reply["message"]["content"], reply["message"].get("tool_calls", [])
        said = {"role": "assistant", "content": text}
        try:
            meaning = dialect.read(reply)
        except Unusable as problem:
            if offered and isinstance(dialect, Native):
                messages.append(said | {"tool_calls": offered})
                messages += [result(call, f"Not run: {problem}") for call in offered]
            else:
                messages += [said] if text.strip() else []
                messages.append(user(f"Your last reply was not used: {problem}"))
            continue
        if not meaning.calls:
            messages.append(said)
            return meaning.answer
        texts = yield RunCalls(meaning.calls)
        messages.append(said | {"tool_calls": meaning.calls})
        messages += map(result, meaning.calls, texts)
    raise Failure("limit", f"The model did not answer within {REQUESTS} requests.")


def completed(messages: Sequence[Plain]) -> list[Plain]:
    """The messages, with a result behind each call of an interrupted run."""
    found: list[Plain] = []
    waiting: list[Plain] = []
    for message in [*messages, None]:
        if message is not None and message["role"] == "tool":
            waiting = [call for call in waiting if call["id"] != message["tool_call_id"]]
        else:
            found += [result(call, "This call was interrupted.") for call in waiting]
            waiting = list(message.get("tool_calls", ())) if message else []
        found += [message] if message else []
    return found


def fitting(messages: Sequence[Plain], question: int) -> list[Plain]:
    """The system messages, the current question, and the newest exchanges before it that fit."""
    system = [message for message in messages if message["role"] == "system"]
    rest = [message for message in messages[:question] if message["role"] != "system"]
    current = list(messages[question:])
    starts = [0, *(at for at, message in enumerate(rest) if message["role"] == "user"), len(rest)]
    for start in starts:
        chosen = system + rest[start:] + current
        if len(json.dumps(chosen, ensure_ascii=False)) <= CHARACTERS:
            break
    return chosen


# ---- the driver


class Tools:
    """The tools by name, and how their calls are run."""

    def __init__(self, tools: Sequence[Plain], run: Any) -> None:
        self.specs = {tool["name"]: tool for tool in tools}
        if len(self.specs) != len(tools):
            raise Failure("duplicate", "Each tool needs a name of its own.")
        self._run = run

    async def results(self, calls: Sequence[Plain]) -> list[str]:
        """The results of calls that run at the same time."""
        return list(await asyncio.gather(*(asyncio.to_thread(self.text, call) for call in calls)))

    def text(self, call: Plain) -> str:
        """The result of one call, which may be an error."""
        try:
            value = self._value(call["function"])
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        except Unusable as problem:
            return f"Invalid call: {problem}"
        except Exception as error:
            return f"The tool failed: {error}"

    def _value(self, function: Plain) -> Any:
        spec = self.specs.get(function["name"])
        if spec is None:
            raise Unusable(f"unknown tool. Use one of {', '.join(self.specs)}.")
        arguments = parsed(function["arguments"])
        validator = jsonschema.Draft202012Validator(spec["parameters"])
        wrong = [f"{each.json_path}: {each.message}" for each in validator.iter_errors(arguments)]
        if wrong:
            raise Unusable("; ".join(wrong))
        return self._run(spec["name"], arguments)


async def perform(effects: Effects, ask: Any, tools: Tools) -> str:
    """Perform effects until there is an answer."""
    value: Any = None
    while True:
        try:
            effect = effects.send(value)
        except StopIteration as stop:
            return str(stop.value)
        match effect:
            case Ask(messages, specs):
                value = await ask(messages, specs)
            case RunCalls(calls):
                value = await tools.results(calls)


# ---- operations

DIALECTS: dict[str, type[Dialect]] = {"native": Native, "prompt": Prompt}


def registry(tools: list[Plain], run: Any) -> Plain:
    return {"names": list(Tools(tools, run).specs)}


def describe(messages: list[Plain], tools: list[Plain], run: Any) -> Plain:
    return {"messages": Prompt(Tools(tools, run).specs).request(messages).messages}


def decide(reply: Plain, tools: list[Plain], run: Any, dialect: str = "prompt") -> Plain:
    try:
        meaning = DIALECTS[dialect](Tools(tools, run).specs).read(reply)
    except Unusable as problem:
        return {"calls": [], "answer": "", "problem": str(problem)}
    calls = [call["function"] for call in meaning.calls]
    return {"calls": calls, "answer": meaning.answer, "problem": ""}


async def call(call: Plain, tools: list[Plain], run: Any) -> Plain:
    (text,) = await Tools(tools, run).results([call])
    return {"result": result(call, text)}


async def answer(
    question: str,
    ask: Any,
    tools: list[Plain],
    run: Any,
    dialect: str = "prompt",
    history: Sequence[Plain] = (),
) -> Plain:
    known, messages = Tools(tools, run), list(history)
    effects = conversation(messages, question, DIALECTS[dialect](known.specs))
    try:
        return {"answer": await perform(effects, ask, known), "messages": messages}
    except Failure as error:
        return {"error": {"kind": error.kind, "message": str(error)}, "messages": messages}


OPERATIONS = {
    "registry": registry,
    "describe": describe,
    "decide": decide,
    "call": call,
    "answer": answer,
}
