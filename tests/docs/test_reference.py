"""The reference pages are up to date, and contain every public name."""

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.sources import parse
from tests.tables import for_each

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
STAGES = ["stage0_gateway", "stage1_context", "stage2_output", "stage3_tools"]


@pytest.fixture(scope="module")
def generated():
    """The text of each page, by file name, as `make reference` would write it."""
    from docs.reference.generate import pages

    return pages()


def public_names(stage: str) -> dict[str, str]:
    """Return the names that a package exports with `from module import Name as Name`, and their
    modules."""
    tree = parse((ROOT / stage / "__init__.py").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {
        each.name: node.module
        for node in imports
        for each in node.names
        if each.asname == each.name
    }


def page_of(stage: str) -> str:
    return (REFERENCE / f"{stage}.md").read_text(encoding="utf-8")


@for_each("stage", STAGES)
def test_a_reference_page_is_up_to_date(generated, stage):
    is_current = page_of(stage) == generated[f"{stage}.md"]
    assert is_current, f"docs/reference/{stage}.md is out of date. Run: make reference"


def test_each_stage_has_a_page_and_no_other_page_exists(generated):
    files = {path.name for path in REFERENCE.glob("*.md")}
    assert files == {*generated} == {f"{stage}.md" for stage in STAGES}


@for_each("stage", STAGES)
def test_every_public_name_has_a_section_and_a_description(stage):
    sections = re.split(r"^### ", page_of(stage), flags=re.MULTILINE)[1:]
    texts = dict(section.split("\n", 1) for section in sections)
    names = public_names(stage)
    assert [name for name in names if name not in texts] == []
    assert [name for name in names if "](../../" not in texts[name]] == []  # its source


def test_lazy_names_are_part_of_the_reference():
    assert {"SqliteStore", "PostgresStore"} <= {*public_names("stage1_context")}
    assert "#### SqliteStore.append\n" in page_of("stage1_context")


@for_each("stage", STAGES)
def test_every_link_within_a_page_leads_to_a_heading(stage):
    page = page_of(stage)
    anchors: dict[str, int] = {}
    for heading in re.findall(r"^#+ (.+)", page, re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        while anchor in anchors:  # GitHub numbers headings with the same text
            anchors[anchor] += 1
            anchor = f"{anchor}-{anchors[anchor]}"
        anchors[anchor] = 0
    links = set(re.findall(r"\]\(#([^)]+)\)", page))
    assert links
    assert links - {*anchors} == set()


@for_each("stage", STAGES)
def test_every_method_of_a_public_class_is_listed(stage):
    """Counted with the syntax tree, independently of the generator."""
    page, missing = page_of(stage), []
    for name, module in public_names(stage).items():
        for method in public_methods(ROOT / f"{module.replace('.', '/')}.py", name):
            if f"#### {name}.{method}\n" not in page and f"| `{method}` |" not in page:
                missing.append(f"{name}.{method}")
    assert missing == []


def public_methods(path: Path, name: str) -> list[str]:
    """Return the public methods of a class; none of another definition."""
    return [
        each.name
        for definition in parse(path.read_text()).body
        if isinstance(definition, ast.ClassDef) and definition.name == name
        for each in definition.body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        and not each.name.startswith("_")
    ]
