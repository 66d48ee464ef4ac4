"""Every block of the pages runs, in order, and prints the output on the page.

A `python` block is executed. An `output` block directly behind it is compared with the printed
text, character by character.
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
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
LESSONS = {
    "stage0_gateway": "1-gateway.md",
    "stage1_context": "2-context.md",
    "stage2_output": "3-output.md",
    "stage3_tools": "4-tools.md",
}
run_python = PythonEvaluator()


def run_and_keep_output(example: Example) -> None:
    """Run a block, and store its output for the next block."""
    printed = StringIO()
    with redirect_stdout(printed):
        run_python(example)
    example.namespace["printed"] = printed.getvalue()


def compare_output(example: Example) -> None:
    """Compare an output block with the printed text."""
    assert example.namespace.pop("printed").strip() == str(example.parsed).strip()


def examples(page: Path) -> list[Example]:
    """Return the blocks of a page, in order."""
    parsers = [
        CodeBlockParser("python", run_and_keep_output),
        CodeBlockParser("output", compare_output),
    ]
    return list(Sybil(parsers).parse(page).examples())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_a_page_runs_and_prints_its_output(page):
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
def test_the_target_of_every_relative_link_exists(page):
    links = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("stage", LESSONS)
def test_the_reading_order_of_a_lesson_is_the_order_of_the_stage(stage):
    docstring = (ROOT / stage / "__init__.py").read_text()
    core = re.search(r"Reading order:\n((?: +\S.*\n)+)", docstring)[1]
    in_package = re.findall(r"^    (\S+) {2,}\S", core, re.MULTILINE)
    page = (DOCS / "learn" / LESSONS[stage]).read_text()
    in_page = re.findall(rf"`{stage}/(\w+)\.py`", page)
    assert list(dict.fromkeys(in_page)) == in_package
