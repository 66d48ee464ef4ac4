"""Every block of the pages runs, in order, and prints what the page says it prints.

A `python` block is executed; an `output` block right behind it is compared with what it printed, to
the letter.
"""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from traceback import format_exc

import pytest
from sybil import Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
run_python = PythonEvaluator()


def run_and_keep_output(example: Example) -> None:
    """Run a block; keep what it printed for the block behind it."""
    printed = StringIO()
    with redirect_stdout(printed):
        run_python(example)
    example.namespace["printed"] = printed.getvalue()


def compare_output(example: Example) -> None:
    """Hold an output block to what was printed."""
    assert example.namespace.pop("printed").strip() == str(example.parsed).strip()


def examples(page: Path) -> list[Example]:
    """The blocks of a page, in order."""
    parsers = [
        CodeBlockParser("python", run_and_keep_output),
        CodeBlockParser("output", compare_output),
    ]
    return list(Sybil(parsers).parse(page).examples())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_a_page_runs_and_prints_what_the_page_says(page):
    for example in examples(page):
        try:
            example.evaluate()
        except Exception:
            pytest.fail(f"{page.name}, line {example.line}:\n{format_exc()}", pytrace=False)


def test_a_wrong_block_and_a_wrong_output_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n\n```output\n2\n```\n")
    _, output = blocks = examples(page)
    blocks[0].evaluate()
    with pytest.raises(AssertionError):
        output.evaluate()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page):
    links = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize(
    "stage", ["stage0_gateway", "stage1_context", "stage2_output", "stage3_tools"]
)
def test_every_public_name_is_on_its_stages_page(stage):
    face = (ROOT / stage / "__init__.py").read_text()
    names = re.findall(r" as (\w+)$", face, re.MULTILINE)
    page = (ROOT / "docs" / f"{stage.split('_')[0]}.md").read_text()
    assert names
    assert [name for name in names if not re.search(rf"\b{name}\b", page)] == []


@pytest.mark.parametrize(
    "stage", ["stage0_gateway", "stage1_context", "stage2_output", "stage3_tools"]
)
def test_the_pages_reading_order_is_the_faces(stage):
    docstring = (ROOT / stage / "__init__.py").read_text()
    core = re.search(r"Reading order:\n((?: +\S.*\n)+)", docstring)[1]
    in_face = re.findall(r"^    (\S+) {2,}\S", core, re.MULTILINE)
    page = (ROOT / "docs" / f"{stage.split('_')[0]}.md").read_text()
    in_page = re.findall(rf"^\| `{stage}/(\S+)\.py` \|", page, re.MULTILINE)
    assert [name.removesuffix("/__init__") for name in in_page] == in_face
