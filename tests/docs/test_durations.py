"""The lessons state their duration, the complete path takes seven hours, and short files are short.

A minute is 200 words or 15 lines of code. The path consists of the README, the lessons, and the top
level of each stage: the code, and the docstrings of the modules.
"""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

from tests.tables import for_each

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
LESSONS = sorted((ROOT / "docs" / "learn").glob("[0-4]-*.md"))
STAGES = ["stage0_gateway", "stage1_context", "stage2_output", "stage3_tools"]
WORDS, LINES = 200, 15  # per minute


def page_minutes(path: Path) -> float:
    """Return the duration of a page: its words, and the lines of its blocks."""
    blocks = re.findall(r"^```.*?^```", path.read_text(), re.MULTILINE | re.DOTALL)
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = sum(1 for block in blocks for line in block.splitlines()[1:-1] if line.strip())
    return (
        len(re.findall(r"\w+", re.sub(r"\]\([^)]*\)|<[^>]*>", " ", text))) / WORDS + lines / LINES
    )


def module_minutes(path: Path) -> float:
    """Return the duration of a module: its docstring and its code."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return len(docstring.split()) / WORDS + code_lines(path) / LINES


def code_lines(path: Path) -> int:
    """Return the lines of a module without docstrings, comments, empty lines and `__all__`."""
    source = path.read_text()
    tree = ast.parse(source)
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_docstring or (
            isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        ):
            docstrings.update(range(node.lineno, (node.end_lineno or 0) + 1))
    lines: set[int] = set()
    no_code = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in no_code:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def stated_minutes(page: Path) -> int:
    stated = re.search(r"about (\d+) minutes", page.read_text())
    assert stated, f"{page.name} does not state its duration: 'about N minutes'"
    return int(stated[1])


@for_each("page", LESSONS)
def test_a_lesson_states_its_duration(page):
    assert stated_minutes(page) == pytest.approx(page_minutes(page), abs=2)


def test_the_readme_states_the_duration_of_the_complete_path(say):
    pages = [ROOT / "README.md", *LESSONS]
    read = {page.name: page_minutes(page) for page in pages}
    for stage in STAGES:
        modules = [path for path in (ROOT / stage).glob("*.py") if path.stem != "__main__"]
        read[stage] = sum(map(module_minutes, modules))
    say(", ".join(f"{name} {minutes:.0f} min" for name, minutes in read.items()))
    assert len(LESSONS) == 5
    assert "take about seven hours" in README
    assert sum(read.values()) / 60 == pytest.approx(7, abs=0.5)
    assert (
        "one to two and a quarter hours, [counted by a test](tests/docs/test_durations.py)"
        in README
    )
    assert [stage for stage in STAGES if not 45 <= read[stage] <= 140] == []


@for_each("name", ["gateway", "context", "output", "tools"])
def test_a_finished_file_of_the_course_has_about_a_hundred_lines_of_code(name):
    assert 75 <= code_lines(ROOT / "examples" / "from_scratch" / f"{name}.py") <= 110
    assert "each stage in about a hundred lines of code" in README
