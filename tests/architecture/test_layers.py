"""The map in each face's docstring is true: it names every file, and none before what it uses.

The checks are functions over a folder, so that the tests can also plant a violation and see it
found.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STAGES = ["stage0_gateway", "stage1_context", "stage2_output", "stage3_tools"]
MAY_IMPORT = {
    "stage0_gateway": set(),
    "stage1_context": {"stage0_gateway"},
    "stage2_output": set(),
    "stage3_tools": {"stage0_gateway", "stage1_context", "stage2_output"},
}


def listed(stage: Path, heading: str) -> list[str]:
    """The files a face's docstring lists under a heading, in order."""
    docstring = ast.get_docstring(ast.parse((stage / "__init__.py").read_text())) or ""
    section = re.search(rf"^{heading}:\n((?: +\S.*\n?)+)", docstring, re.MULTILINE)
    return re.findall(r"^    (\S+) {2,}\S", section[1], re.MULTILINE) if section else []


def on_disk(stage: Path) -> set[str]:
    """The files of a stage by their listed names; a folder's own `__init__` counts where it holds
    code."""
    names = set()
    for path in stage.rglob("*.py"):
        name = path.relative_to(stage).with_suffix("").as_posix()
        body = ast.parse(path.read_text()).body
        if path.name == "__init__.py":
            if path.parent == stage or len(body) <= 1:
                continue
            name = name.removesuffix("/__init__")
        names.add(name)
    return names


def imports(path: Path, *, whole: bool) -> Iterator[tuple[str, str]]:
    """(module, name) of each import; with `whole` also those inside functions."""
    for node in nodes(ast.parse(path.read_text()), whole=whole):
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (
                (f"{'.' * node.level}{node.module or ''}", each.name) for each in node.names
            )


FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def nodes(node: ast.AST, *, whole: bool) -> Iterator[ast.AST]:
    """All nodes below one; what is done only later, or only for the type checker, only with
    `whole`."""
    for child in ast.iter_child_nodes(node):
        if whole or not (isinstance(child, FUNCTION) or is_for_types(child)):
            yield child
            yield from nodes(child, whole=whole)


def is_for_types(node: ast.AST) -> bool:
    """Whether this is `if TYPE_CHECKING:`, behind which the names of lazily reached files stand."""
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


def problems(root: Path, stage_name: str) -> list[str]:
    """Everything in which a stage differs from its map."""
    stage = root / stage_name
    core, sometimes = listed(stage, "Reading order"), listed(stage, "Sometimes")
    order, there = core + sometimes, on_disk(stage)
    found = [f"{name} is listed but not there" for name in order if name not in there]
    found += [f"{name} is not listed" for name in sorted(there - set(order))]
    for place, name in enumerate(order):
        path = (
            stage / f"{name}.py"
            if (stage / f"{name}.py").exists()
            else stage / name / "__init__.py"
        )
        if not path.exists():
            continue
        for module, _ in imports(path, whole=True):
            top = module.split(".")[0]
            if module.startswith("."):
                found.append(f"{name} uses a relative import")
            elif top in MAY_IMPORT and top != stage_name:
                if top not in MAY_IMPORT[stage_name]:
                    found.append(f"{name} imports {top}, which {stage_name} must not know")
                elif module != top:
                    found.append(f"{name} imports {module} and not the face of {top}")
        for module, imported in imports(path, whole=False):
            used = within(stage_name, order, module, imported)
            if used and order.index(used) >= place:
                found.append(f"{name} imports {used}, which is listed after it")
    return found


def within(stage_name: str, order: list[str], module: str, imported: str) -> str | None:
    """Which listed file of the same stage an import means."""
    if module.split(".")[0] != stage_name:
        return None
    name = module.removeprefix(stage_name).removeprefix(".").replace(".", "/")
    deeper = f"{name}/{imported}".removeprefix("/")
    return deeper if deeper in order else name if name in order else None


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_is_built_as_its_map_says(stage):
    assert problems(ROOT, stage) == []


@pytest.mark.parametrize("stage", STAGES)
def test_a_face_exports_what_it_imports_sorted_by_name(stage):
    tree = ast.parse((ROOT / stage / "__init__.py").read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported = sorted(
        each.name for node in found if node.module.startswith(stage) for each in node.names
    )
    assigned = next(node for node in tree.body if isinstance(node, ast.Assign))
    assert ast.literal_eval(assigned.value) == imported


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_needed_only_sometimes_is_loaded_when_it_is_asked_for_and_every_name_is_there(
    stage,
):
    sometimes = [f"{stage}.{name.replace('/', '.')}" for name in listed(ROOT / stage, "Sometimes")]
    program = f"""
import sys
import {stage}
early = [name for name in {sometimes} if name in sys.modules]
missing = [name for name in {stage}.__all__ if not hasattr({stage}, name)]
print(early, missing)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[] []\n"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name
)
def test_examples_use_the_faces_only(path):
    modules = [module for module, _ in imports(path, whole=True) if module.startswith("stage")]
    assert modules
    assert [module for module in modules if module not in STAGES] == []


@pytest.mark.parametrize("stage", STAGES)
def test_only_one_file_opens_connections_and_one_for_the_fast_ones(stage):
    opens = re.compile(r"\b(?:AsyncClient|AsyncHTTPTransport|AiohttpTransport)\(")
    clients = [p.name for p in (ROOT / stage).rglob("*.py") if opens.search(p.read_text())]
    assert sorted(clients) == (["fast.py", "pool.py"] if stage == "stage0_gateway" else [])


@pytest.mark.parametrize("stage", STAGES)
def test_every_module_says_what_it_is(stage):
    silent = [
        p.name
        for p in (ROOT / stage).rglob("*.py")
        if len(ast.get_docstring(ast.parse(p.read_text())) or "") < 40
    ]
    assert silent == []


# ---- planted violations
# ---------------------------------------------------------------------------------


def plant(root: Path, **files: str) -> Path:
    """A stage1_context with two sound files, and what else is given."""
    stage = root / "stage1_context"
    stage.mkdir()
    face = '"""A stage.\n\nReading order:\n    first   one\n    second  two\n"""\n'
    sound = {"__init__": face, "first": "", "second": "from stage1_context.first import x\n"}
    for name, text in {**sound, **files}.items():
        (stage / f"{name}.py").write_text(text)
    return root


def test_a_sound_stage_has_no_problems(tmp_path):
    assert problems(plant(tmp_path), "stage1_context") == []


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ({"third": ""}, "third is not listed"),
        (
            {"first": "from stage1_context.second import y\n"},
            "first imports second, which is listed after it",
        ),
        (
            {"first": "from stage1_context import second\n"},
            "first imports second, which is listed after it",
        ),
        (
            {"first": "import stage3_tools\n"},
            "first imports stage3_tools, which stage1_context must not know",
        ),
        (
            {"first": "def f():\n    from stage0_gateway.messages import Message\n"},
            "first imports stage0_gateway.messages and not the face of stage0_gateway",
        ),
        ({"first": "from . import second\n"}, "first uses a relative import"),
    ],
    ids=["unlisted", "backwards", "backwards by name", "upwards", "past the face", "relative"],
)
def test_a_planted_violation_is_found(tmp_path, planted, found):
    assert problems(plant(tmp_path, **planted), "stage1_context") == [found]


def test_what_only_the_type_checker_imports_may_stand_further_up(tmp_path):
    for_types = "if TYPE_CHECKING:\n    from stage1_context.second import y\n"
    assert problems(plant(tmp_path, first=for_types), "stage1_context") == []


def test_a_listed_file_that_is_gone_is_found(tmp_path):
    root = plant(tmp_path)
    (root / "stage1_context" / "second.py").unlink()
    assert problems(root, "stage1_context") == ["second is listed but not there"]
