"""Files of the course as subjects.

A file of the course has the functions of a file in `examples/from_scratch/`. Functions that are
missing, or that have no body yet (`...` or `raise NotImplementedError`), are built in: they are
taken from the finished file, so each step can be graded alone. The starter file lists the functions
that a learner has to write; all other functions are the learner's choice.
"""

import ast
import importlib
import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tests.conformance.case import shortened
from tests.conformance.starters import FINISHED, STARTERS, Function, names_of
from tests.conformance.subject import Operation, Subject, load_module, syntax_tree
from tests.conformance.surroundings import Failure

if TYPE_CHECKING:
    import httpx

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
    unwritten = build_in(module, path, finished, STARTERS / FILES[stage])
    return Subject(path.name, OPERATIONS[stage](module), unwritten)


def replace_finished(stage: str, path: Path) -> None:
    """Let the files that are loaded from now on import this file instead of the finished one.

    Raises:
        SubjectError: The file cannot be imported.
    """
    package, name = importlib.import_module("examples.from_scratch"), Path(FILES[stage]).stem
    finished = load_module(FINISHED / FILES[stage], f"course_finished_{stage}")
    module = load_module(path, f"{package.__name__}.{name}")
    build_in(module, path, finished, STARTERS / FILES[stage])
    setattr(package, name, module)


# ---- steps and unwritten functions


def functions_of(path: Path) -> dict[str, tuple[int, Function]]:
    """Return the functions and methods of a file by name ("Gateway.post"), with their step."""
    tree = syntax_tree(path)
    marks = [
        (number, int(found[1]))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (found := re.match(r"\s*# ---- Step (\d+)", line))
    ]

    def step(node: ast.stmt) -> int:
        return max((mark for mark in marks if mark[0] < node.lineno), default=(0, 0))[1]

    functions: dict[str, tuple[int, Function]] = {}
    for node in tree.body:
        if isinstance(node, Function):
            functions[node.name] = (step(node), node)
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, Function):
                    functions[f"{node.name}.{inner.name}"] = (step(inner), inner)
    return functions


def is_unwritten(node: Function) -> bool:
    """Whether a function has no body yet, apart from its docstring."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return all(
        isinstance(each, ast.Pass)
        or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        or (isinstance(each, ast.Raise) and "NotImplementedError" in ast.unparse(each))
        for each in body
    )


def names_in(path: Path) -> set[str]:
    """Return the names that a module defines at its top level."""
    return {name for node in syntax_tree(path).body for name in names_of(node)}


def build_in(
    module: ModuleType, path: Path, finished: ModuleType, starter: Path
) -> dict[int, list[str]]:
    """Complete a file with the finished one; return the unwritten functions by step.

    Both modules share the names of the starter: the learner's functions and types replace the
    finished ones, and the finished ones replace unwritten ones. Other names are private.
    """
    functions = functions_of(path)
    unwritten: dict[int, list[str]] = {}
    for name, (step, _) in functions_of(starter).items():
        is_imported = "." not in name and hasattr(module, name)
        if is_unwritten(functions[name][1]) if name in functions else not is_imported:
            unwritten.setdefault(step, []).append(name)
    missing = {name for names in unwritten.values() for name in names}
    for name in names_in(starter):
        if name in missing or not hasattr(module, name):
            setattr(module, name, getattr(finished, name))
        else:
            for method in (each for each in missing if each.startswith(f"{name}.")):
                attribute = method.partition(".")[2]
                source = vars(getattr(finished, name))[attribute]
                setattr(getattr(module, name), attribute, source)
            setattr(finished, name, getattr(module, name))
    return unwritten


# ---- operations


def gateway(module: ModuleType) -> Mapping[str, Operation]:
    """The operations of a `gateway.py`."""

    def client(url: str) -> "httpx.AsyncClient":
        import httpx  # here, because the command needs the names of the operations only

        return httpx.AsyncClient(base_url=url, timeout=5, verify=False, trust_env=False)

    def encode(model: str, messages: Any, tools: Any = ()) -> Any:
        return module.encode(model, messages, tools)

    def decode(body: Any) -> Any:
        try:
            return reply_fields("the result of decode", module.decode(body))
        except module.ModelError as error:
            raise failure(module, error) from error

    async def chat(url: str, messages: Any, tools: Any = (), wait: float = 0.001) -> Any:
        async with client(url) as connections:
            try:
                reply = await module.Gateway(connections, "m", wait).chat(messages, tools)
            except module.ModelError as error:
                raise failure(module, error) from error
            return reply_fields("the result of chat", reply)

    async def stream(url: str, messages: Any, tools: Any = ()) -> Any:
        async with client(url) as connections:
            pieces = module.Gateway(connections, "m", 0.001).stream(messages, tools)
            try:
                found = [each async for each in pieces]
            except module.ModelError as error:
                raise failure(module, error) from error
            *texts, reply = found or [None]
            return {"texts": texts, **reply_fields("the last item of stream", reply)}

    return {"encode": encode, "decode": decode, "chat": chat, "stream": stream}


def fields(what: str, value: Any, *names: str) -> dict[str, Any]:
    """Return the attributes of a value that a function of the learner returned or yielded.

    Raises:
        TypeError: The value does not have them, for example because `return` is missing.
    """
    if not all(hasattr(value, name) for name in names):
        expected = " and ".join(names)
        raise TypeError(f"{what} is {shortened(value, 80)}, without {expected}")
    return {name: getattr(value, name) for name in names}


def reply_fields(what: str, reply: Any) -> dict[str, Any]:
    return fields(what, reply, "message", "finish_reason")


def failure(module: ModuleType, error: Exception) -> Failure:
    kind = "temporary" if isinstance(error, module.TemporaryError) else "permanent"
    return Failure(kind, str(error))


def context(module: ModuleType) -> Mapping[str, Operation]:
    """The operations of a `context.py`."""

    def messages(parts: list[list[str]]) -> Any:
        return [getattr(module, role)(*texts) for role, *texts in parts]

    def count(message: Any) -> int:
        return module.count_tokens(message)  # type: ignore[no-any-return]

    def window(messages: Any, max_tokens: int = 0, spare: int | None = None) -> Any:
        if spare is not None:
            max_tokens = spare + sum(map(module.count_tokens, messages))
        try:
            return module.window(messages, max_tokens)
        except module.WindowTooSmall as error:
            raise Failure("too_small", str(error)) from error

    def repair(messages: Any) -> Any:
        return module.repair(messages)

    def opened(path: str | None) -> Any:
        try:
            return module.History(path and Path(path))
        except ValueError as error:
            raise Failure("damaged", str(error)) from error

    def history(path: str | None = None, add: Any = ()) -> Any:
        conversation = opened(path)
        outcome = {"loaded": list(conversation.messages)}
        for message in add:
            conversation.add(message)
        if path is not None:
            outcome["loaded_again"] = opened(path).messages
        return {**outcome, "messages": conversation.messages}

    def writers(path: str, add: Any) -> Any:
        conversations = [opened(path), opened(path)]
        for number, message in enumerate(add):
            conversations[number % 2].add(message)
        return {"loaded_again": opened(path).messages}

    return {
        "messages": messages,
        "count": count,
        "window": window,
        "repair": repair,
        "history": history,
        "writers": writers,
    }


def reply_type(module: ModuleType) -> Any:
    """The `Reply` that a file imports: that of the learner's own gateway, or the finished one."""
    if hasattr(module, "Reply"):
        return module.Reply
    from examples.from_scratch.gateway import Reply

    return Reply


def output(module: ModuleType) -> Mapping[str, Operation]:
    """The operations of an `output.py`."""
    Reply = reply_type(module)  # noqa: N806

    def read(text: str, schema: Any = None) -> Any:
        schema = {} if schema is None else schema
        return fields("the result of read", module.read(text, schema), "value", "repairs", "issues")

    def unwrap(text: str) -> Any:
        return module.unwrap(text)

    def validate(value: Any, schema: Any) -> Any:
        return {"issues": module.validate(value, schema)}

    def feedback(text: str, schema: Any) -> Any:
        return {"text": module.describe(read(text, schema)["issues"])}

    async def request(ask: Any, messages: Any, schema: Any, **limit: int) -> Any:
        async def asked(messages: Any) -> Any:
            return Reply(**await ask(messages))

        try:
            result = await module.request(asked, messages, schema, **limit)
        except module.InvalidOutput as error:
            raise Failure("invalid", str(error)) from error
        return {**fields("the result of request", result, "value"), "messages": messages}

    return {
        "read": read,
        "unwrap": unwrap,
        "validate": validate,
        "feedback": feedback,
        "request": request,
    }


def partial_run(run: Any, name: str) -> Operation:
    """The function of a tool: it calls `run` of the surroundings."""
    return lambda **arguments: run(name, arguments)


def tools(module: ModuleType) -> Mapping[str, Operation]:
    """The operations of a `tools.py`."""
    from examples.from_scratch import context as finished

    Reply = reply_type(module)  # noqa: N806
    History = getattr(getattr(module, "context", None), "History", finished.History)  # noqa: N806

    def registry_of(tools: Any, run: Any) -> Any:
        return module.registry(
            *(module.Tool(spec, partial_run(run, spec["name"])) for spec in tools)
        )

    def registry(tools: Any, run: Any) -> Any:
        try:
            return {"names": list(registry_of(tools, run))}
        except ValueError as error:
            raise Failure("duplicate", str(error)) from error

    def describe(messages: Any, tools: Any, run: Any) -> Any:
        return {"messages": module.as_text(messages, registry_of(tools, run))}

    def decide(reply: Any, tools: Any, run: Any, dialect: str = "prompt") -> Any:
        given = {"message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}
        result = module.decide(Reply(**given | reply), dialect)
        decision = fields("the result of decide", result, "calls", "answer", "problem")
        calls = [
            {"name": call["function"]["name"], "arguments": call["function"]["arguments"]}
            for call in decision["calls"]
        ]
        return {**decision, "calls": calls}

    def call(call: Any, tools: Any, run: Any) -> Any:
        return {"result": module.run(call, registry_of(tools, run))}

    async def answer(
        question: str, ask: Any, tools: Any, run: Any, dialect: str = "prompt", history: Any = ()
    ) -> Any:
        async def asked(messages: Any, tools: Any) -> Any:
            return Reply(**await ask(messages, tools))

        conversation = History()
        conversation.messages = list(history)
        by_name = registry_of(tools, run)
        try:
            text = await module.answer(question, conversation, asked, by_name, dialect)
        except (module.TurnLimit, Failure) as error:
            kind = error.kind if isinstance(error, Failure) else "limit"
            outcome = {"error": {"kind": kind, "message": str(error)}}
            return {**outcome, "messages": conversation.messages}
        return {"answer": text, "messages": conversation.messages}

    return {
        "registry": registry,
        "describe": describe,
        "decide": decide,
        "call": call,
        "answer": answer,
    }


OPERATIONS = {"stage0": gateway, "stage1": context, "stage2": output, "stage3": tools}
"""The operations of the file of each stage."""
