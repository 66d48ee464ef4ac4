"""A room uses only the public attributes of others, and only some modules take the steps of a turn.

The checks read the sources. An attribute with an underscore counts as foreign if no module of the
room defines it: also one of a base class in another room, or of a library.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import imports, parse
from tests.architecture.test_layers import LAYERS, ROOT, modules, unit_of
from tests.tables import for_each

LIBRARIES = {
    "stage0_gateway.http.pool": {"_connection", "_h11_state"},
    "stage2_output.validation.keywords": {"_resolver"},
}
"""Private attributes of libraries, by the module that uses them. Each has a comment with the reason."""

NAMED_TUPLE = {"_asdict", "_replace"}
"""Public methods of `typing.NamedTuple`, whose underscore avoids a conflict with fields."""

STEPS = {
    "request": {"stage3_tools.loop", "stage3_tools.runner.stepper"},
    "read": {"stage3_tools.loop", "stage3_tools.runner.stepper", "stage3_tools.chain.chain"},
    "act": {"stage3_tools.loop", "stage3_tools.runner.stepper", "stage3_tools.chain.chain"},
    "StopPolicy": {
        "stage3_tools.loop",
        "stage3_tools.runner.stepper",
        "llm_stages.runs.replay",  # a replayed runner continues after a failed request
    },
}
"""The modules that may take the steps of a turn themselves. A second loop would need them."""


def defined(tree: ast.AST) -> Iterator[str]:
    """Yield the names of the attributes, methods and fields that a module defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "object.__setattr__":
            yield from (each.value for each in node.args if isinstance(each, ast.Constant))
        elif isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield member.name
                targets = getattr(member, "targets", None) or [getattr(member, "target", None)]
                yield from (each.id for each in targets if isinstance(each, ast.Name))


def used(tree: ast.AST) -> Iterator[str]:
    """Yield the private attributes that a module reads, or passes as keywords."""
    for node in ast.walk(tree):
        name = getattr(node, "attr", None) or getattr(node, "arg", None)
        if isinstance(name, str) and re.match(r"_[^_]", name) and name not in NAMED_TUPLE:
            yield name


def foreign_attributes(files: dict[str, Path]) -> dict[str, set[str]]:
    """Return the private attributes that each module uses and no module of its room defines."""
    trees = {name: parse(path.read_text()) for name, path in files.items()}
    own: dict[str, set[str]] = {}
    for name, tree in trees.items():
        own.setdefault(unit_of(name), set()).update(defined(tree))
    found = {name: {*used(tree)} - own[unit_of(name)] for name, tree in trees.items()}
    return {name: attributes for name, attributes in found.items() if attributes}


@for_each("package", LAYERS)
def test_a_room_uses_no_private_attribute_of_another_room_or_library(package):
    allowed = {name: each for name, each in LIBRARIES.items() if name.startswith(package)}
    assert foreign_attributes(modules(ROOT / package)) == allowed


@for_each("package", LAYERS)
def test_nothing_is_guessed_from_a_bound_method(package):
    guess = re.compile(r"__(?:self|func)__")
    found = [name for name, p in modules(ROOT / package).items() if guess.search(p.read_text())]
    assert found == []


@for_each("step", STEPS)
def test_only_the_modules_of_the_table_take_the_steps_of_a_turn(step):
    places = (f"stage3_tools.turn.{step}", f"stage3_tools.run.stop_policy.{step}")
    places += (f"stage3_tools.{step}",)  # the face
    files = {**modules(ROOT / "stage3_tools"), **modules(ROOT / "llm_stages")}
    users = {
        name
        for name, path in files.items()
        for each, _ in imports(path.read_text())
        if each in places
    }
    assert users == STEPS[step]


# ---- planted violations


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(transcript):\n    return transcript._reader\n", {"_reader"}),
        ("class Mine(Base):\n    def f(self):\n        return self._reader\n", {"_reader"}),
        ("validator.evolve(_resolver=1)\n", {"_resolver"}),
        (
            "class Mine:\n    def __init__(self):\n        self._x = 1\n    f = lambda s: s._x\n",
            None,
        ),
    ],
)
def test_a_planted_use_of_a_private_attribute_is_found(tmp_path, source, found):
    path = tmp_path / "room.py"
    path.write_text(source)
    attributes = foreign_attributes({"stage1_context.room": path})
    assert attributes == ({"stage1_context.room": found} if found else {})
