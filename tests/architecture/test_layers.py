"""Stages and rooms import each other in one direction only; the table `LAYERS` defines it.

    values          errors, messages, results: they import only values
    core            rooms and modules that import values, and what is listed before them
    orchestrators   modules that combine the core; import order is reading order
    entry           rooms that use orchestrators; the package exports them, or a method loads them

All imports count, also those for type checkers and those inside functions. The checks are functions
of a folder and a table, so the tests can also verify that a planted violation is found.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture.sources import imports, parse
from tests.tables import for_each

ROOT = Path(__file__).parents[2]
LAYERS = {
    "stage0_gateway": {
        "stages": [],
        "values": ["errors", "json_fields", "parts", "messages", "request", "response", "events"],
        "core": ["streaming/", "wire/", "http/", "accounting/"],
        "orchestrators": ["model", "retry", "settings", "gateway"],
        "entry": ["server/", "recording/", "offline/"],
    },
    "stage1_context": {
        "stages": ["stage0_gateway"],
        "values": ["errors", "journal", "history", "tokens"],
        "core": ["counting/", "window", "store", "view/", "recovery/", "stores/"],
        "orchestrators": ["variables", "transcript", "compaction/", "engine"],
        "entry": [],
    },
    "stage2_output": {
        "stages": [],
        "values": ["errors", "result"],
        "core": ["parsing/", "extraction/", "extract", "validation/"],
        "orchestrators": ["schema", "feedback", "request", "controller"],
        "entry": ["partial", "types/"],
    },
    "stage3_tools": {
        "stages": ["stage0_gateway", "stage1_context", "stage2_output"],
        "values": ["errors", "result", "abort", "context"],
        "core": [
            "schema/",
            "tool",
            "execution/",
            "registry",
            "reading/",
            "decision",
            "dialects/",
            "variables/",
            "events",
            "options",
            "run/",
            "resume/",
        ],
        "orchestrators": ["turn", "loop", "ask"],
        "entry": ["runner/", "chain/"],
    },
    "llm_stages": {
        "stages": ["stage0_gateway", "stage1_context", "stage2_output", "stage3_tools"],
        "values": [],
        "core": [],
        "orchestrators": [],
        "entry": ["runs/", "cli/", "testing/", "__main__"],
    },
}
"""The layers of each package, in import order. A name with a slash is a room."""

STAGES = [package for package in LAYERS if package != "llm_stages"]

FACES = ["llm_stages/testing"]
"""The rooms that programs import by their name: they export names, like a package."""

LAZY = {
    ("stage0_gateway.gateway", "offline/"),
    ("stage0_gateway.offline.scripted", "server/"),
    ("stage2_output.controller", "types/"),
}
"""Imports inside functions, of entry rooms that few programs need: (module, room)."""


def order(table):
    return [*table["values"], *table["core"], *table["orchestrators"], *table["entry"]]


def modules(stage: Path) -> dict[str, Path]:
    """Return the modules of a stage by dotted name, without the `__init__` modules."""
    files = (path for path in stage.rglob("*.py") if path.stem != "__init__")
    return {".".join(path.relative_to(stage.parent).with_suffix("").parts): path for path in files}


def unit_of(module: str) -> str:
    """Return the top-level module or the room of a module."""
    parts = module.split(".")
    return parts[1] if len(parts) == 2 else f"{parts[1]}/"


def problems(root: Path, stage: str, table: dict[str, list[str]], lazy=LAZY) -> list[str]:
    """Return every violation of the rules in a stage."""
    known, units = modules(root / stage), order(table)
    present = {unit_of(name) for name in known}
    found = [f"{unit} is not in the table" for unit in sorted(present - set(units))]
    found += [f"{unit} is in the table but does not exist" for unit in units if unit not in present]
    graph: dict[str, set[str]] = {name: set() for name in known}
    for name, path in known.items():
        for imported, inside in imports(path.read_text()):
            if imported.startswith("."):
                found.append(f"{name} uses a relative import")
            elif imported.split(".")[0] != stage:
                found += foreign(stage, table, name, imported)
            elif (target := target_of(imported, known)) is None:
                found.append(f"{name} imports {imported} from an __init__ module")
            elif not (inside and (name, unit_of(target)) in lazy):
                graph[name].add(target)
                found += misplaced(units, name, unit_of(target), inside)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append("import cycle: " + " -> ".join(error.args[1]))
    return found


def target_of(imported: str, known: dict[str, Path]) -> str | None:
    """Return the module of the stage that an import refers to, or None."""
    return next((each for each in (imported, imported.rpartition(".")[0]) if each in known), None)


def foreign(stage: str, table: dict[str, list[str]], name: str, imported: str) -> Iterator[str]:
    """Yield the violation of an import of another stage."""
    top, *middle = imported.split(".")[:-1] or [imported]
    if top in LAYERS and top not in table["stages"]:
        yield f"{name} imports {top}, which {stage} must not import"
    elif top in LAYERS and middle:
        yield f"{name} imports {imported} instead of the package {top}"


def misplaced(units: list[str], name: str, other: str, inside: bool) -> Iterator[str]:
    """Yield the violation of an import within a stage."""
    unit = unit_of(name)
    if inside and other != unit:
        yield f"{name} imports {other} inside a function"
    if unit in units and other in units and units.index(other) > units.index(unit):
        yield f"{name} imports {other}, which is listed after {unit}"


def listed(docstring: str, heading: str) -> list[str]:
    """Return the names in a section of a docstring, in order."""
    section = re.search(rf"^{heading}\n((?:(?: +\S.*)?\n?)+)", docstring, re.MULTILINE)
    return re.findall(r"^    (\S+) {2,}\S", section[1], re.MULTILINE) if section else []


def docstring_of(path: Path) -> str:
    return ast.get_docstring(parse(path.read_text()), clean=False) or ""


@for_each("stage", LAYERS)
def test_imports_point_in_the_direction_of_the_table(stage):
    assert problems(ROOT, stage, LAYERS[stage]) == []


@for_each("stage", LAYERS)
def test_a_package_lists_its_top_level_in_reading_order_and_its_rooms(stage):
    docstring, units = docstring_of(ROOT / stage / "__init__.py"), order(LAYERS[stage])
    assert listed(docstring, "Reading order:") == [unit for unit in units if not unit.endswith("/")]
    assert sorted(listed(docstring, "Rooms:")) == sorted(
        unit for unit in units if unit.endswith("/")
    )


@for_each("stage", LAYERS)
def test_a_room_lists_its_modules_and_holds_no_code(stage):
    for init in (ROOT / stage).glob("*/__init__.py"):
        names = {path.stem for path in init.parent.glob("*.py")} - {"__init__"}
        missing = [
            name for name in names if not re.search(rf"^ *{name}  ", docstring_of(init), re.M)
        ]
        assert (init.parent.name, missing) == (init.parent.name, [])
        is_face = init.parent.relative_to(ROOT).as_posix() in FACES
        assert is_face or len(parse(init.read_text()).body) == 1, init


def exports(stage: str) -> tuple[list[ast.alias], list[str]]:
    """Return the imports of a package from its own modules, and the modules of its lazy imports."""
    tree = parse((ROOT / stage / "__init__.py").read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    lazy = [
        each.module
        for block in tree.body
        if isinstance(block, ast.If) and getattr(block.test, "id", "") == "TYPE_CHECKING"
        for each in block.body
    ]
    own = [stage] if stage in STAGES else [*LAYERS]  # the face for programs exports all of them
    exported = [node for node in found if node.module.split(".")[0] in own]
    return [each for node in exported for each in node.names], lazy


IMPORT_ALL = """
import sys
from importlib import import_module

PACKAGES = {packages}
modules = {{name: import_module(name) for name in PACKAGES}}
for name, (names, lazy) in PACKAGES.items():
    print(name, "loaded", sys.modules.keys() & {{*lazy}}, end=", ")
    print("not in both", {{*getattr(modules[name], "__all__", ())}} ^ {{*names}})
for name, (names, _) in PACKAGES.items():
    space = {{}}
    exec(f"from {{name}} import *", space)
    listed = {{*space}} & {{*dir(modules[name])}}
    print(name, "missing", [each for each in names if each not in listed])
"""


def test_all_and_dir_contain_the_exported_names_and_lazy_ones_are_loaded_at_their_first_use():
    packages = {}
    for stage in LAYERS:
        names, lazy = exports(stage)
        packages[stage] = [each.name for each in names], lazy
    program = [sys.executable, "-c", IMPORT_ALL.format(packages=packages)]
    ran = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        *(f"{stage} loaded set(), not in both set()" for stage in LAYERS),
        *(f"{stage} missing []" for stage in LAYERS),
    ]


@for_each("path", sorted((ROOT / "examples").glob("*.py")))
def test_examples_import_names_from_the_packages_only(path):
    found = [name for name, _ in imports(path.read_text()) if name.split(".")[0] in LAYERS]
    assert found
    assert [name for name in found if name.count(".") > 1] == []


@for_each("stage", LAYERS)
def test_only_two_modules_open_connections(stage):
    opens = re.compile(r"\b(?:AsyncClient|AsyncHTTPTransport|AiohttpTransport)\(")
    clients = [p.name for p in (ROOT / stage).rglob("*.py") if opens.search(p.read_text())]
    assert sorted(clients) == (["fast.py", "pool.py"] if stage == "stage0_gateway" else [])


@for_each("stage", LAYERS)
def test_every_module_has_a_docstring(stage):
    missing = [p.name for p in (ROOT / stage).rglob("*.py") if len(docstring_of(p)) < 40]
    assert missing == []


# ---- planted violations

TABLE = {
    "stages": ["stage0_gateway"],
    "values": ["first"],
    "core": ["room/"],
    "orchestrators": ["second"],
    "entry": ["last/"],
}
VALID = {
    "__init__": '"""A package."""\n',
    "first": "",
    "room/__init__": "",
    "room/inner": "from stage1_context.first import x\n",
    "second": "from stage1_context.room.inner import x\nfrom stage0_gateway import Message\n",
    "last/__init__": "",
    "last/entry": "from stage1_context.second import x\n",
}


def plant(root: Path, **files: str) -> Path:
    """Write a valid stage1_context, with some files replaced."""
    for name, text in {**VALID, **files}.items():
        path = root / "stage1_context" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_valid_stage_has_no_problems(tmp_path):
    assert problems(plant(tmp_path), "stage1_context", TABLE) == []


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("third", "", "third is not in the table"),
        ("first", "from stage1_context.second import y\n", "imports second, which is listed after"),
        ("first", "from stage1_context import second\n", "imports second, which is listed after"),
        ("first", "from stage1_context import name\n", "from an __init__ module"),
        ("first", "import stage3_tools\n", "imports stage3_tools, which stage1_context must not"),
        ("first", "from stage0_gateway.messages import Message\n", "instead of the package stage0"),
        ("first", "from . import second\n", "first uses a relative import"),
        (
            "first",
            "if TYPE_CHECKING:\n    from stage1_context.second import y\n",
            "imports second, which is listed after",
        ),
        (
            "second",
            "def f():\n    from stage1_context.last.entry import y\n",
            "second imports last/ inside a function",
        ),
        ("room/other", "from stage1_context.room.third import y\n", "from an __init__ module"),
    ],
)
def test_a_planted_violation_is_found(tmp_path, name, text, found):
    planted = problems(plant(tmp_path, **{name: text}), "stage1_context", TABLE)
    assert any(found in problem for problem in planted), planted


def test_a_cycle_within_a_room_is_found(tmp_path):
    files = {
        "room/inner": "from stage1_context.room.other import x\n",
        "room/other": "from stage1_context.room.inner import x\n",
    }
    (problem,) = problems(plant(tmp_path, **files), "stage1_context", TABLE)
    assert problem.startswith("import cycle: stage1_context.room.")


def test_a_lazy_import_of_an_entry_room_may_be_listed(tmp_path):
    text = "def f():\n    from stage1_context.last.entry import y\n"
    root = plant(tmp_path, second=text)
    lazy = {("stage1_context.second", "last/")}
    assert problems(root, "stage1_context", TABLE, lazy) == []


def test_a_missing_module_is_found(tmp_path):
    root = plant(tmp_path)
    (root / "stage1_context" / "second.py").unlink()
    found = problems(root, "stage1_context", TABLE)
    assert "second is in the table but does not exist" in found
