"""Stage 3 as a program that speaks JSON lines: plain Python, without this project and libraries.

Run it with `python tests/conformance stage3 --command "python FILE"`. A turn of the loop is an
object here, and requests are derived from the list of turns.
"""

import json
import re
import sys

MAX_REQUESTS = 10
MAX_CHARACTERS = 28_000
COMPLETE = ("stop", "tool_calls")
FEEDBACK = "[Feedback]"


class Problem(Exception):
    """Something that the model should correct, or an error for the suite."""

    def __init__(self, text, kind="failed"):
        super().__init__(text)
        self.kind = kind


# ---- JSON


def load(text):
    """Parse JSON strictly: without NaN, and without repeated names."""

    def unique(pairs):
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            raise Problem(f"A name is repeated: {names}")
        return dict(pairs)

    def constant(name):
        raise Problem(f"{name} is not JSON.")

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise Problem(f"Invalid JSON: {error}") from None


def dump(value):
    """Write JSON without escapes."""
    return json.dumps(value, ensure_ascii=False)


TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "number": (int, float),
    "integer": int,
}


def has_type(value, name):
    """Whether a value has a type of JSON Schema."""
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, TYPES[name])


def issues(value, schema, path="arguments"):
    """Yield what does not fit a schema: types, enumerations, lists and objects."""
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(has_type(value, name) for name in types):
        yield f"{path} must be of type {' or '.join(types)}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path} must be one of {schema['enum']}"
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from issues(item, schema.get("items", {}), f"{path}[{index}]")
    if isinstance(value, dict):
        yield from issues_of_object(value, schema, path)


def issues_of_object(value, schema, path):
    """Yield what is missing in an object, unknown, or invalid inside of it."""
    properties = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            yield f"{path}.{name} is missing"
    for name, item in value.items():
        if name in properties:
            yield from issues(item, properties[name], f"{path}.{name}")
        elif schema.get("additionalProperties") is False:
            yield f"{path}.{name} is unknown"


# ---- tools


def by_name(tools):
    """The tools by name."""
    found = {}
    for tool in tools:
        if tool["name"] in found:
            raise Problem(f"There are two tools named {tool['name']}.", "duplicate")
        found[tool["name"]] = tool
    return found


def result_of(call, tools, suite):
    """The one result of a call: what the tool returns, or why it was not run."""
    try:
        content = run(call["function"], tools, suite)
    except Problem as problem:
        content = f"This call failed. {problem}"
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


def run(function, tools, suite):
    """Check the arguments, run the tool, and return its value as text."""
    tool = tools.get(function["name"])
    if tool is None:
        raise Problem(f"There is no tool {function['name']}; there are {', '.join(tools)}.")
    arguments = load(function["arguments"])
    if wrong := list(issues(arguments, tool["parameters"])):
        raise Problem("; ".join(wrong))
    value = suite.call("run", {"name": tool["name"], "arguments": arguments})
    return value if isinstance(value, str) else dump(value)


# ---- dialects


def rendered(messages, tools):
    """The messages as text, behind one system message that describes the tools."""
    names = {}
    system = [message["content"] for message in messages if message["role"] == "system"]
    system.append(
        'Answer with one JSON object: {"tool": NAME, "arguments": {…}} calls a tool, and '
        '{"tool": null, "reply": TEXT} answers the user. Results begin with [Tool result for …]. '
        "The tools:"
    )
    system += [dump(tool) for tool in tools.values()]
    texts = [{"role": "system", "content": "\n".join(system)}]
    for message in messages:
        for call in message.get("tool_calls", []):
            names[call["id"]] = call["function"]["name"]
        if message["role"] == "tool":
            name = names.get(message["tool_call_id"], "a tool")
            content = f"[Tool result for {name}]\n{message['content']}"
            texts.append({"role": "user", "content": content})
        elif message["role"] != "system":
            texts.append({"role": message["role"], "content": message["content"]})
    return texts


def decision(reply, dialect):
    """The calls and the answer of a reply.

    Raises:
        Problem: The reply cannot be used.
    """
    if reply.get("finish_reason", "stop") not in COMPLETE:
        raise Problem("Your reply was cut off. Write less.")
    message = reply["message"]
    text = message.get("content") or ""
    if dialect == "native":
        calls = message.get("tool_calls") or []
        if not calls and not text.strip():
            raise Problem("Your reply was empty.")
        return calls, text
    return written_decision(text)


def written_decision(text):
    """The decision in a text, which must be nothing else than one JSON object."""
    text = re.sub(r"\A\s*<think>.*?</think>", "", text, flags=re.DOTALL).strip()
    fence = re.fullmatch(r"```\w*\n(.*)\n```", text, flags=re.DOTALL)
    text = fence[1] if fence and "```" not in fence[1] else text
    text = re.sub(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', lambda found: found[1] or "", text)
    value = load(text)
    if not isinstance(value, dict) or "tool" not in value:
        raise Problem('Write one JSON object with the name "tool".')
    name, arguments = value["tool"], value.get("arguments")
    arguments = {} if arguments is None else arguments
    if name is None:
        if not isinstance(value.get("reply"), str) or not value["reply"].strip():
            raise Problem('An answer needs the text "reply".')
        return [], value["reply"]
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise Problem('"tool" must be a name, and "arguments" an object.')
    function = {"name": name, "arguments": dump(arguments)}
    return [{"id": "call", "type": "function", "function": function}], ""


# ---- the loop


class Conversation:
    """The messages of a conversation, as turns: a message, and the results of its calls."""

    def __init__(self, messages):
        self.turns = []
        for message in messages:
            self.add(message)

    def add(self, message):
        """Add a message, or a result to the turn of its call."""
        if message["role"] == "tool":
            self.turns[-1][1].setdefault(message["tool_call_id"], message)
        else:
            self.turns.append((message, {}))

    def messages(self, turns=None):
        """The messages, with a result behind each call."""
        found = []
        for message, results in self.turns if turns is None else turns:
            found.append(message)
            for call in message.get("tool_calls", []):
                missing = {"role": "tool", "tool_call_id": call["id"], "content": "Interrupted."}
                found.append(results.get(call["id"], missing))
        return found

    def selected(self):
        """The system messages, and the newest exchanges that fit into a request."""
        system = [turn for turn in self.turns if turn[0]["role"] == "system"]
        exchanges = []
        for turn in self.turns:
            message = turn[0]
            if message["role"] == "system":
                continue
            is_question = message["role"] == "user" and FEEDBACK not in message["content"]
            if is_question or not exchanges:
                exchanges.append([])
            exchanges[-1].append(turn)
        chosen = []
        for exchange in reversed(exchanges):
            if chosen and len(dump([*exchange, *chosen])) > MAX_CHARACTERS:
                break
            chosen = exchange + chosen
        return self.messages(system + chosen)


def answer(suite, question, tools, dialect="prompt", history=()):
    """Answer a question with tools."""
    conversation, known = Conversation(history), by_name(tools)
    conversation.add({"role": "user", "content": question})
    try:
        text = answer_of(suite, conversation, known, dialect)
        return {"answer": text, "messages": conversation.messages()}
    except Problem as problem:
        error = {"kind": problem.kind, "message": str(problem)}
        return {"error": error, "messages": conversation.messages()}


def answer_of(suite, conversation, tools, dialect):
    """Ask until there is an answer."""
    for _ in range(MAX_REQUESTS):
        request = {"messages": conversation.selected(), "tools": list(tools.values())}
        if dialect == "prompt":
            request = {"messages": rendered(request["messages"], tools), "tools": []}
        reply = suite.call("ask", request)
        text = reply["message"].get("content") or ""
        try:
            calls, found = decision(reply, dialect)
        except Problem as problem:
            if text:
                conversation.add({"role": "assistant", "content": text})
            conversation.add({"role": "user", "content": f"{FEEDBACK} {problem}"})
            continue
        message = {"role": "assistant", "content": text}
        if not calls:
            conversation.add(message)
            return found
        conversation.add(message | {"tool_calls": calls})
        for call in calls:
            conversation.add(result_of(call, tools, suite))
    raise Problem(f"No answer after {MAX_REQUESTS} requests.", "limit")


# ---- operations


def registry(suite, tools):
    """Register tools."""
    return {"names": list(by_name(tools))}


def describe(suite, messages, tools):
    """Render messages."""
    return {"messages": rendered(messages, by_name(tools))}


def decide(suite, reply, tools, dialect="prompt"):
    """Interpret a reply."""
    try:
        calls, text = decision(reply, dialect)
    except Problem as problem:
        return {"calls": [], "answer": "", "problem": str(problem)}
    return {"calls": [call["function"] for call in calls], "answer": text, "problem": ""}


def call(suite, call, tools):
    """Run one call."""
    return {"result": result_of(call, by_name(tools), suite)}


BY_NAME = {
    "registry": registry,
    "describe": describe,
    "decide": decide,
    "call": call,
    "answer": answer,
}


class Suite:
    """The other end of stdin and stdout, while one operation runs."""

    def __init__(self, id):
        self.id = id

    def send(self, fields):
        """Write one message."""
        sys.stdout.write(json.dumps({"id": self.id, **fields}) + "\n")
        sys.stdout.flush()

    def call(self, name, fields):
        """Call the model or a tool."""
        self.send({"call": name, "input": fields})
        reply = json.loads(sys.stdin.readline())
        if "error" in reply:
            raise Problem(reply["error"]["message"], reply["error"]["kind"])
        return reply["value"]


def main():
    """Answer operations until stdin ends."""
    for line in sys.stdin:
        message = json.loads(line)
        suite = Suite(message["id"])
        try:
            suite.send({"value": BY_NAME[message["operation"]](suite, **message["input"])})
        except Problem as problem:
            suite.send({"error": {"kind": problem.kind, "message": str(problem)}})
        except (TypeError, KeyError) as error:
            suite.send({"error": {"kind": "unsupported", "message": str(error)}})


if __name__ == "__main__":
    main()
