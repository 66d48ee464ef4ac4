"""Write the starter files of the course from the finished files.

    make course        or: python tests/conformance/generate.py

A starter contains the imports, the types and errors, some constants, and the functions of the
steps. A function has its contract instead of its body. The other functions and constants of a
finished file are one way to solve a step, so they are not part of the starter.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FINISHED = ROOT / "examples" / "from_scratch"
STARTERS = ROOT / "docs" / "learn" / "build" / "starters"

PAGES = {
    "gateway.py": "0-gateway.md",
    "context.py": "1-context.md",
    "output.py": "2-output.md",
    "tools.py": "3-tools.md",
}
"""The page of the course for each file."""

INCLUDED = {
    "gateway.py": {
        *("Message", "Reply", "Stream", "ModelError", "TemporaryError", "FINISH_REASONS"),
        *("encode", "decode", "Gateway"),
    },
    "context.py": {
        *("Message", "FEEDBACK", "INTERRUPTED", "WindowTooSmall"),
        *("system", "user", "feedback", "tool_result", "count_tokens", "window", "repair"),
        "History",
    },
    "output.py": {
        *("Result", "Ask", "InvalidOutput"),
        *("find", "unwrap", "parse", "validate", "read", "describe", "request"),
    },
    "tools.py": {
        *("Tool", "INSTRUCTIONS", "Decision", "Ask", "MAX_TURNS", "MAX_TOKENS", "TurnLimit"),
        *("registry", "as_text", "decide", "run", "answer"),
    },
}
"""The names in a starter: types and constants that are given, and functions to write."""

CONTRACTS = {
    "decode": """Return the reply in the body of an answer.

Raises:
    ModelError: The body is not a chat completion.""",
    "Gateway.post": """Send one request to `chat/completions`, and return its reply.

Raises:
    TemporaryError: The connection broke, or the status means that the failure may pass.
    ModelError: The server refused the request, or its answer is not a chat completion.""",
    "Gateway.chat": """Return the reply to messages, after three attempts at most.

Raises:
    ModelError: The last attempt failed, or a failure cannot pass.""",
    "Gateway.stream": """Yield pieces of text while they arrive, and at the end the whole `Reply`.

Raises:
    ModelError: The server refused the request, or the stream broke or ended too early.""",
    "feedback": """Return a correction of the last reply: a user's message that begins with FEEDBACK.""",
    "count_tokens": """Estimate the tokens of a message: 4 ASCII characters, or 1 other character, are a token.""",
    "window": """Return the system messages and the newest exchanges that fit, in their order.

Raises:
    WindowTooSmall: The newest exchange does not fit.""",
    "History.__init__": """Load the messages of the file, without an incomplete last line.

Raises:
    ValueError: Another line is damaged.""",
    "find": """Yield the parts of a text that may be the JSON, the most likely one first.""",
    "validate": """Return all issues of a value, each with its location; an empty list means valid.""",
    "request": """Ask until the reply fits the schema. Each new attempt contains the reply and its issues.

Raises:
    InvalidOutput: No attempt was valid.""",
    "registry": """Return the tools by name.

Raises:
    ValueError: Two tools have the same name.""",
    "as_text": """Return the messages for a model that reads only text: INSTRUCTIONS and the tools first.""",
    "answer": """Add a question to the history, run the calls that it needs, and return the answer.

Raises:
    TurnLimit: The model did not answer within MAX_TURNS requests.""",
}
"""Docstrings for learners, where the one of the finished file does not state the whole contract."""


Function = ast.FunctionDef | ast.AsyncFunctionDef


def starters() -> dict[Path, str]:
    """Return the text of each starter file by its path."""
    return {STARTERS / name: starter(name) for name in PAGES}


def starter(name: str) -> str:
    """Return the text of one starter file."""
    text = (FINISHED / name).read_text(encoding="utf-8")
    tree = ast.parse(text)
    lines = text.splitlines()
    for first, last, new in reversed(list(edits(tree, INCLUDED[name]))):
        lines[first - 1 : last] = new
    docstring = head(name, ast.get_docstring(tree) or "")
    body = re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines))
    body = re.sub(r"(\n# ---- .*\n)\n{2,}", r"\1\n\n", body)
    return f'"""{docstring}\n"""\n{body.rstrip()}\n'


def head(name: str, docstring: str) -> str:
    """The docstring of a starter: what the file does, its steps, and how to check it."""
    does, steps = docstring[: docstring.index("\n\nCovered:")].split("\n\nSteps:\n")
    return f"""{does}

Steps:
{steps}

Write the functions whose body is `...`. A function that is not written yet is built in, so you may
start with any step. Other functions and constants are up to you.

The page: docs/learn/build/{PAGES[name]}
The check: make grade FILE=my_{name}"""


def edits(tree: ast.Module, included: set[str]) -> Iterator[tuple[int, int, list[str]]]:
    """Yield what changes: the first and the last line, and the new lines, in their order."""
    assert tree.body[0].end_lineno is not None
    yield 1, tree.body[0].end_lineno, []  # the docstring
    removes = False
    for node in tree.body[1:]:
        is_comment = isinstance(node, ast.Expr)  # the docstring of the constant before it
        is_import = isinstance(node, ast.Import | ast.ImportFrom)
        removes = removes if is_comment else not (is_import or names_of(node) & included)
        if removes:
            yield first_line(node), node.end_lineno or 0, []
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, Function):
                    yield without_body(inner, f"{node.name}.{inner.name}")
        elif isinstance(node, Function):
            yield without_body(node, node.name)


def names_of(node: ast.stmt) -> set[str]:
    """The names that a statement of a module defines."""
    if isinstance(node, Function | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
    return {
        each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)
    }


def first_line(node: ast.stmt) -> int:
    """The line where a statement begins, with its decorators."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def without_body(node: Function, name: str) -> tuple[int, int, list[str]]:
    """Replace the body of a function by its contract and `...`; the result is that of `edits`."""
    contract = (CONTRACTS.get(name) or ast.get_docstring(node) or "").splitlines()
    indent = " " * node.body[0].col_offset
    quoted = ['"""' + contract[0], *contract[1:]]
    quoted = [*quoted, '"""'] if len(contract) > 1 else [quoted[0] + '"""']
    new = [(indent + line).rstrip() for line in [*quoted, "..."]]
    return node.body[0].lineno, node.end_lineno or 0, new
