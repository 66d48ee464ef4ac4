"""Stage 2 as a program that speaks JSON lines: a grammar of lenient JSON, and a small validator.

It reads JSON with a recursive parser whose grammar contains the repairs, so it never changes a
text. It needs the standard library only. Run: `python stage2_program.py`, or through the suite.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

DEEPEST = 200
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|[\"'\\/bfnrt])")
CONSTANTS = {"true": True, "false": False, "null": None}


# ---- find


def without_thinking(text: str) -> str:
    head, tag, rest = text.lstrip().partition("</think>")
    return rest if tag and head.startswith("<think>") else text


def fences(text: str) -> Iterator[str]:
    lines: list[str] | None = None
    for line in text.splitlines():
        if not line.startswith("```"):
            if lines is not None:
                lines.append(line)
        elif lines is None:
            lines = []
        else:
            yield "\n".join(lines)
            lines = None


def bracketed(text: str) -> Iterator[str]:
    """Yield each part of a text from an opening bracket to the one that closes it."""
    start, depth, quoted, at = 0, 0, False, 0
    while at < len(text):
        mark = text[at]
        if quoted:
            at += mark == "\\"
            quoted = mark != '"'
        elif mark == '"':
            quoted = depth > 0
        elif mark in "{[":
            start = start if depth else at
            depth += 1
        elif mark in "}]" and depth:
            depth -= 1
            if not depth:
                yield text[start : at + 1]
        at += 1


def candidates(text: str) -> Iterator[str]:
    text = without_thinking(text)
    yield text
    yield from fences(text)
    yield from bracketed(text)


def unwrap(text: str) -> str:
    text = without_thinking(text).strip()
    lines = text.splitlines()
    marks = [at for at, line in enumerate(lines) if line.startswith("```")]
    return "\n".join(lines[1:-1]) if marks == [0, len(lines) - 1] else text


# ---- parse


class Parser:
    """Reads one value of lenient JSON; `repairs` lists what JSON does not allow."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.repairs: list[str] = []

    def read(self) -> Any:
        value = self.value(0)
        if self.peek():
            raise ValueError("text behind the value")
        return value

    def peek(self) -> str:
        """Skip white space, and return the next character."""
        while self.text[self.at : self.at + 1] in tuple(" \t\r\n"):
            self.at += 1
        return self.text[self.at : self.at + 1]

    def take(self, mark: str) -> bool:
        found = self.peek() == mark
        self.at += found
        return found

    def value(self, depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError("nested too deeply")
        mark = self.peek()
        if mark == "{":
            pairs = list(self.items("}", lambda: self.member(depth)))
            if len(dict(pairs)) != len(pairs):
                raise ValueError("a name appears twice")
            return dict(pairs)
        if mark == "[":
            return list(self.items("]", lambda: self.value(depth + 1)))
        if mark in ("'", '"'):
            return self.string()
        if found := NUMBER.match(self.text, self.at):
            self.at = found.end()
            number = json.loads(found[0])
            if math.isinf(number):
                raise ValueError("a number is too large")
            return number
        for word, constant in CONSTANTS.items():
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return constant
        raise ValueError("a value is missing")

    def items(self, closer: str, item: Callable[[], Any]) -> Iterator[Any]:
        self.at += 1
        if self.take(closer):
            return
        while True:
            yield item()
            comma = self.take(",")
            if self.take(closer):
                if comma:
                    self.repairs.append("trailing comma")
                return
            if not comma:
                raise ValueError("a comma or a bracket is missing")

    def member(self, depth: int) -> tuple[str, Any]:
        if self.peek() not in ("'", '"'):
            raise ValueError("a name is missing")
        name = self.string()
        if not self.take(":"):
            raise ValueError("a colon is missing")
        return name, self.value(depth + 1)

    def string(self) -> str:
        quote = self.text[self.at]
        if quote == "'":
            self.repairs.append("single quotes")
        self.at += 1
        parts: list[str] = []
        while (mark := self.text[self.at : self.at + 1]) != quote:
            if mark < " ":
                raise ValueError("a string is not closed, or contains a control character")
            escape = ESCAPE.match(self.text, self.at)
            if mark == "\\" and not escape:
                raise ValueError("unknown escape")
            parts.append(escape[0] if escape and mark == "\\" else mark)
            self.at += len(parts[-1])
        self.at += 1
        plain = {"\\'": "'", '"': '\\"'}
        return str(json.loads('"' + "".join(plain.get(part, part) for part in parts) + '"'))


# ---- validate

TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: TYPES["number"](value) and value == int(value),
}


def same(value: Any, other: Any) -> bool:
    return json.dumps(value, sort_keys=True) == json.dumps(other, sort_keys=True)


def validate(value: Any, schema: Any, root: Any = None, path: str = "value") -> list[str]:
    """Return the issues of a value. The keywords are those that classes produce."""
    if isinstance(schema, bool):
        return [] if schema else [f"{path} is not allowed"]
    root = schema if root is None else root
    issues = []
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#").split("/")[1:]:
            target = target[part]
        issues += validate(value, target, root, path)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(TYPES[kind](value) for kind in kinds):
        return [*issues, f"{path} must be {' or '.join(kinds)}"]
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if choices is not None and not any(same(value, choice) for choice in choices):
        issues.append(f"{path} must be one of {json.dumps(choices)}")
    if isinstance(value, dict):
        known = schema.get("properties", {})
        issues += [
            f"{path}.{name} is missing" for name in schema.get("required", ()) if name not in value
        ]
        for name, each in value.items():
            inner = known.get(name, schema.get("additionalProperties", True))
            issues += validate(each, inner, root, f"{path}.{name}")
    if isinstance(value, list):
        for at, each in enumerate(value):
            issues += validate(each, schema.get("items", True), root, f"{path}[{at}]")
    return issues


# ---- read, describe, ask again


def read(text: str, schema: Any = True) -> dict[str, Any]:
    best = {"value": None, "repairs": [], "issues": ["there is no valid JSON in the reply"]}
    found = False
    for candidate in candidates(text):
        parser = Parser(candidate)
        try:
            value = parser.read()
        except ValueError:
            continue
        result = {"value": value, "repairs": parser.repairs, "issues": validate(value, schema)}
        if not result["issues"]:
            return result
        best, found = best if found else result, True
    return best


def describe(issues: list[str]) -> str:
    lines = "\n".join(f"- {issue[:300]}" for issue in issues)
    return f"Your reply has mistakes:\n{lines}\nSend the corrected JSON only."


def request(
    ask: Callable[..., Any], messages: Any, schema: Any, attempts: int = 3
) -> dict[str, Any]:
    conversation = list(messages)
    while attempts > 0:
        reply = ask(messages=conversation)
        text = reply["message"].get("content") or ""
        result = read(text, schema)
        if reply["finish_reason"] == "length":
            result["issues"] = ["the reply is too long and was cut off"]
        if not result["issues"]:
            return {"value": result["value"]}
        answer = {"role": "assistant", "content": text}
        feedback = {"role": "user", "content": f"[Feedback] {describe(result['issues'])}"}
        conversation += [answer, feedback]
        attempts -= 1
    raise Reported({"kind": "invalid", "message": "; ".join(result["issues"])})


# ---- JSON lines


class Reported(Exception):
    """An error that the program reports to the suite."""


def main() -> None:
    """Answer each line of stdin."""
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"value": perform(asked["id"], asked["operation"], asked["input"])}
        except Reported as error:
            answer = {"error": error.args[0]}
        write(asked["id"], answer)


def write(id: int, fields: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"id": id, **fields}) + "\n")
    sys.stdout.flush()


def perform(id: int, operation: str, fields: dict[str, Any]) -> Any:
    def ask(**arguments: Any) -> Any:
        write(id, {"call": "ask", "input": arguments})
        answer = json.loads(sys.stdin.readline())
        if "error" in answer:
            raise Reported(answer["error"])
        return answer["value"]

    if operation == "request":
        return request(ask, **fields)
    if operation == "read" and "finish_reason" not in fields:
        return read(**fields)
    if operation == "unwrap":
        return unwrap(**fields)
    if operation == "validate":
        return {"issues": validate(**fields)}
    if operation == "feedback":
        return {"text": describe(read(**fields)["issues"])}
    raise Reported({"kind": "unsupported", "message": f"{operation} with {', '.join(fields)}"})


if __name__ == "__main__":
    main()
