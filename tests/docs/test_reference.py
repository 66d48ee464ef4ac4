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
PACKAGES = [*STAGES, "llm_stages"]


@pytest.fixture(scope="module")
def generated():
    """The text of each page, by file name, as `make reference` would write it."""
    from docs.reference.generate import pages

    return pages()


def exported_names(package: str) -> dict[str, str]:
    """Return the names that a package exports with `from module import Name`, and their modules."""
    tree = parse((ROOT / package / "__init__.py").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {
        each.name: node.module
        for node in imports
        if node.module and node.module.partition(".")[0] in PACKAGES
        for each in node.names
    }


def public_names(package: str) -> dict[str, str]:
    """Return the exported names that the package defines itself, and their modules."""
    names = exported_names(package)
    return {name: module for name, module in names.items() if module.startswith(f"{package}.")}


def page_of(package: str) -> str:
    return (REFERENCE / f"{package}.md").read_text(encoding="utf-8")


@for_each("package", PACKAGES)
def test_a_reference_page_is_up_to_date(generated, package):
    is_current = page_of(package) == generated[f"{package}.md"]
    assert is_current, f"docs/reference/{package}.md is out of date. Run: make reference"


def test_each_package_has_a_page_and_no_other_page_exists(generated):
    files = {path.name for path in REFERENCE.glob("*.md")}
    assert files == {*generated} == {f"{package}.md" for package in PACKAGES}


@for_each("stage", STAGES)
def test_a_stage_exports_its_own_names_only(stage):
    assert exported_names(stage) == public_names(stage)


def test_the_page_of_llm_stages_links_each_name_of_a_stage_to_the_page_of_that_stage():
    of_stages = {
        name: stage for name, stage in exported_names("llm_stages").items() if stage in STAGES
    }
    assert {*exported_names("llm_stages")} == {*of_stages, *public_names("llm_stages")}
    links = re.findall(r"\[`(\w+)`\]\((\w+)\.md#", page_of("llm_stages"))
    assert dict(links) == of_stages


@for_each("package", PACKAGES)
def test_every_public_name_has_a_section_and_a_description(package):
    sections = re.split(r"^### ", page_of(package), flags=re.MULTILINE)[1:]
    texts = dict(section.split("\n", 1) for section in sections)
    names = public_names(package)
    assert [name for name in names if name not in texts] == []
    assert [name for name in names if "](../../" not in texts[name]] == []  # its source


def test_lazy_names_are_part_of_the_reference():
    assert {"SqliteStore", "PostgresStore"} <= {*public_names("stage1_context")}
    assert "#### SqliteStore.append\n" in page_of("stage1_context")


@for_each("package", PACKAGES)
def test_every_link_within_a_page_leads_to_a_heading(package):
    page = page_of(package)
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


@for_each("package", PACKAGES)
def test_every_method_of_a_public_class_is_listed(package):
    """Counted with the syntax tree, independently of the generator."""
    page, missing = page_of(package), []
    for name, module in public_names(package).items():
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
