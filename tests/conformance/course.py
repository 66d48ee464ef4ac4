"""Files of the course as subjects.

A file of the course has the functions of a file in `examples/from_scratch/`. Functions that are
missing, or that have no body yet (`...` or `raise NotImplementedError`), are built in: they are
taken from the finished file, so each step can be graded alone.
"""

import ast
import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx

from tests.conformance.subject import Operation, Subject, SubjectError, load_module
from tests.conformance.surroundings import Failure

FINISHED = Path(__file__).parents[2] / "examples" / "from_scratch"
FILES = {
    "stage0": "gateway.py",
    "stage1": "context.py",
    "stage2": "output.py",
    "stage3": "tools.py",
}
"""The file of the course for each stage."""


def load_course_file(path: Path, stage: str) -> Subject:
    """Return a file of the course as a subject.

    Raises:
        SubjectError: The file cannot be imported.
    """
    module = load_module(path, f"course_{path.stem}_{uuid.uuid4().hex}")
    finished = load_module(FINISHED / FILES[stage], f"course_finished_{stage}")
    unwritten = fill(module, path, finished, FINISHED / FILES[stage])
    return Subject(path.name, OPERATIONS[stage](module), unwritten)


# ---- steps and unwritten functions


def functions_of(path: Path) -> dict[str, tuple[int, ast.AST]]:
    """Return the functions and methods of a file by name ("Gateway.post"), with their step."""
    text = path.read_text(encoding="utf-8")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise SubjectError(f"{path.name}, line {error.lineno}: {error.msg}") from error
    marks = [
        (number, int(found[1]))
        for number, line in enumerate(text.splitlines(), 1)
        if (found := re.match(r"\s*# ---- Step (\d+)", line))
    ]

    def step(node: ast.stmt) -> int:
        return max((mark for mark in marks if mark[0] < node.lineno), default=(0, 0))[1]

    found: dict[str, tuple[int, ast.AST]] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = (step(node), node)
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    found[f"{node.name}.{inner.name}"] = (step(inner), inner)
    return found


def is_unwritten(node: ast.AST) -> bool:
    """Whether a function has no body yet, apart from its docstring."""
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return all(
        isinstance(each, ast.Pass)
        or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        or (isinstance(each, ast.Raise) and "NotImplementedError" in ast.unparse(each))
        for each in body
    )


def fill(
    module: ModuleType, path: Path, finished: ModuleType, finished_path: Path
) -> dict[int, list[str]]:
    """Build in the unwritten functions of a file; return their names by step."""
    written = functions_of(path)
    unwritten: dict[int, list[str]] = {}
    for name, (step, _) in functions_of(finished_path).items():
        if name in written and not is_unwritten(written[name][1]):
            continue
        owner, _, attribute = name.rpartition(".")
        if owner and not hasattr(module, owner):
            setattr(module, owner, getattr(finished, owner))
        target = getattr(module, owner) if owner else module
        source = getattr(finished, owner) if owner else finished
        setattr(target, attribute, getattr(source, attribute))
        unwritten.setdefault(step, []).append(name)
    for name, value in vars(finished).items():  # constants and classes that were removed
        if not hasattr(module, name):
            setattr(module, name, value)
    return unwritten


# ---- operations


def unsupported(what: str) -> Failure:
    """The error for a case that a file of a hundred lines does not handle."""
    return Failure("unsupported", f"This file does not know {what}.")


def gateway(module: ModuleType) -> Mapping[str, Operation]:
    """The operations of a `gateway.py`."""

    def encode(model: str, messages: Any, tools: Any = (), format: str = "openai") -> Any:
        if format != "openai":
            raise unsupported(f"the format {format!r}")
        return module.encode(model, messages, tools)

    def decode(body: Any, format: str = "openai") -> Any:
        if format != "openai":
            raise unsupported(f"the format {format!r}")
        try:
            return reply_fields(module.decode(body))
        except module.ModelError as error:
            raise failure(module, error) from error

    def client(url: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=url, timeout=5, verify=False, trust_env=False)

    async def chat(
        url: str, messages: Any, tools: Any = (), format: str = "openai", wait: float = 0.001
    ) -> Any:
        if format != "openai":
            raise unsupported(f"the format {format!r}")
        async with client(url) as connections:
            try:
                reply = await module.Gateway(connections, "m", wait).chat(messages, tools)
            except module.ModelError as error:
                raise failure(module, error) from error
            return reply_fields(reply)

    async def stream(url: str, messages: Any, tools: Any = (), format: str = "openai") -> Any:
        if format != "openai":
            raise unsupported(f"the format {format!r}")
        async with client(url) as connections:
            try:
                found = [
                    each
                    async for each in module.Gateway(connections, "m", 0.001).stream(
                        messages, tools
                    )
                ]
            except module.ModelError as error:
                raise failure(module, error) from error
            return {"texts": found[:-1], **reply_fields(found[-1])}

    return {"encode": encode, "decode": decode, "chat": chat, "stream": stream}


def reply_fields(reply: Any) -> dict[str, Any]:
    return {"message": reply.message, "finish_reason": reply.finish_reason}


def failure(module: ModuleType, error: Exception) -> Failure:
    kind = "temporary" if isinstance(error, module.TemporaryError) else "permanent"
    return Failure(kind, str(error))


def context(module: ModuleType) -> Mapping[str, Operation]:
    """The operations of a `context.py`."""
    from examples.from_scratch import context as finished

    def messages(parts: list[list[str]]) -> Any:
        return [getattr(module, role)(*texts) for role, *texts in parts]

    def count(message: Any) -> int:
        return module.count_tokens(message)  # type: ignore[no-any-return]

    def window(messages: Any, max_tokens: int) -> Any:
        try:
            return module.window(messages, max_tokens)
        except (module.WindowTooSmall, finished.WindowTooSmall) as error:
            raise Failure("too_small", str(error)) from error

    def repair(messages: Any) -> Any:
        return module.repair(messages)

    def history(path: str, add: Any = ()) -> Any:
        conversation = module.History(Path(path))
        loaded = list(conversation.messages)
        for message in add:
            conversation.add(message)
        again = module.History(Path(path)).messages
        return {"loaded": loaded, "messages": conversation.messages, "loaded_again": again}

    return {
        "messages": messages,
        "count": count,
        "window": window,
        "repair": repair,
        "history": history,
    }


def output(module: ModuleType) -> Mapping[str, Operation]:
    """The operations of an `output.py`."""
    from examples.from_scratch.gateway import Reply

    def read(text: str, schema: Any = True, finish_reason: str = "stop") -> Any:
        if finish_reason != "stop":
            raise unsupported("the finish reason of a text without a request")
        result = module.read(text, schema)
        return {"value": result.value, "repairs": result.repairs, "issues": result.issues}

    def validate(value: Any, schema: Any) -> Any:
        return {"issues": module.validate(value, schema)}

    def feedback(text: str, schema: Any) -> Any:
        return {"text": module.describe(module.read(text, schema).issues)}

    async def request(ask: Any, messages: Any, schema: Any, attempts: int = 3) -> Any:
        async def asked(messages: Any) -> Any:
            return Reply(**await ask(messages))

        try:
            result = await module.request(asked, messages, schema, attempts)
        except module.InvalidOutput as error:
            raise Failure("invalid", str(error)) from error
        return {"value": result.value}

    return {"read": read, "validate": validate, "feedback": feedback, "request": request}


def tools(module: ModuleType) -> Mapping[str, Operation]:
    """The operations of a `tools.py`."""
    from examples.from_scratch import context as finished
    from examples.from_scratch.gateway import Reply

    def registry_of(tools: Any, run: Any) -> Any:
        def function(name: str) -> Any:
            return lambda **arguments: run(name, arguments)

        return module.registry(*(module.Tool(spec, function(spec["name"])) for spec in tools))

    def registry(tools: Any, run: Any) -> Any:
        try:
            return {"names": list(registry_of(tools, run))}
        except ValueError as error:
            raise Failure("duplicate", str(error)) from error

    def describe(messages: Any, tools: Any, run: Any) -> Any:
        return {"messages": module.as_text(messages, registry_of(tools, run))}

    def decide(reply: Any, tools: Any, run: Any, dialect: str = "prompt") -> Any:
        fields = {"message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}
        decision = module.decide(Reply(**fields | reply), dialect)
        calls = [
            {"name": call["function"]["name"], "arguments": call["function"]["arguments"]}
            for call in decision.calls
        ]
        return {"calls": calls, "answer": decision.answer, "problem": decision.problem}

    def call(call: Any, tools: Any, run: Any) -> Any:
        return {"result": module.run(call, registry_of(tools, run))}

    async def answer(
        question: str, ask: Any, tools: Any, run: Any, dialect: str = "prompt", history: Any = ()
    ) -> Any:
        async def asked(messages: Any, tools: Any) -> Any:
            return Reply(**await ask(messages, tools))

        conversation = finished.History()
        conversation.messages = list(history)
        fields: dict[str, Any] = {}
        try:
            text = await module.answer(
                question, conversation, asked, registry_of(tools, run), dialect
            )
            fields = {"answer": text}
        except module.TurnLimit as error:
            fields = {"error": {"kind": "limit", "message": str(error)}}
        return {**fields, "messages": conversation.messages}

    return {
        "registry": registry,
        "describe": describe,
        "decide": decide,
        "call": call,
        "answer": answer,
    }


OPERATIONS = {"stage0": gateway, "stage1": context, "stage2": output, "stage3": tools}
"""The operations of the file of each stage."""
