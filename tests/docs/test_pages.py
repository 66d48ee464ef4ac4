"""Every block of the pages runs, in order, and prints the output on the page.

A `python` block is executed. An `output` block directly behind it is compared with the printed
text, character by character. A `python` block that begins with a file name as a comment is also
written to that file, in a folder of the page.

A `shell-session` block is a transcript. Its commands begin with `$ `, run in the folder of the page,
and print the rest of the block; `…` is any text. In a chat, lines that begin with `> ` are the
input. The notice of the offline model is omitted.
"""

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from traceback import format_exc

import pytest
from sybil import Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

from tests.programs import run_program
from tests.tables import for_each

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
LESSONS = {
    "stage0_gateway": "1-gateway.md",
    "stage1_context": "2-context.md",
    "stage2_output": "3-output.md",
    "stage3_tools": "4-tools.md",
}
LLM_STAGES = re.compile(
    r"""(?:echo "(?P<input>[^"]*)" \| )?"""
    r"""llm-stages(?P<arguments>[^|<>;&$*]*)"""
    r"""(?: < /dev/null| 2> (?P<errors>\S+))?(?P<status>; echo "status \$\?")?"""
)
"""A command that needs no shell."""

run_python = PythonEvaluator()


def run_and_keep_output(example: Example) -> None:
    """Run a block, and store its output for the next block."""
    if named := re.match(r"# (\w+\.py)\n", example.parsed):
        (example.namespace["the folder"] / named[1]).write_text(example.parsed, encoding="utf-8")
    printed = StringIO()
    with redirect_stdout(printed):
        run_python(example)
    example.namespace["printed"] = printed.getvalue()


def compare_output(example: Example) -> None:
    """Compare an output block with the printed text."""
    assert example.namespace.pop("printed").strip() == str(example.parsed).strip()


def compare_transcript(example: Example) -> None:
    """Run the commands of a transcript, and compare what they print."""
    for each in re.split(r"^\$ ", str(example.parsed), flags=re.MULTILINE)[1:]:
        command, _, shown = each.partition("\n")
        printed = run_command(command, shown, example.namespace["the folder"])
        shown = re.sub(r"^> .*\n?", "> ", shown, flags=re.MULTILINE)  # a pipe has no echo
        pattern = re.escape(shown.strip()).replace("…", ".*")
        assert re.fullmatch(pattern, printed, re.DOTALL), f"$ {command}\n{printed}"


def run_command(command: str, shown: str, folder: Path) -> str:
    """Run a command in the folder of a page, and return what it prints."""
    environment = {
        "PATH": f"{folder / '.bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",  # stdout and stderr in the order of a terminal
        "PYTHONUTF8": "1",
        "HOME": str(folder),
    }
    given = "".join(re.findall(r"^> (.*\n?)", shown, re.MULTILINE))
    if call := LLM_STAGES.fullmatch(command):
        done = run_program(
            ["-m", "llm_stages", *shlex.split(call["arguments"])],
            environment=environment,
            cwd=folder,
            input=f"{call['input']}\n" if call["input"] else given,
            is_merged=not call["errors"],
        )
        if call["errors"]:
            (folder / call["errors"]).write_text(done.stderr, encoding="utf-8")
        if call["status"]:
            done.stdout += f"status {done.returncode}\n"
    else:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=folder,
            env=environment,
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            timeout=60,
        )
    printed = re.sub(r"^(> )?NOTICE: .*\n", r"\1", done.stdout, flags=re.MULTILINE)
    return re.sub(r" +$", "", printed, flags=re.MULTILINE).strip()


def examples(page: Path, folder: Path) -> list[Example]:
    """Return the blocks of a page, in order; `folder` is for its files and commands."""
    command = folder / ".bin" / "llm-stages"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m llm_stages "$@"\n')
    command.chmod(0o755)
    parsers = [
        CodeBlockParser("shell-session", compare_transcript),
        CodeBlockParser("python", run_and_keep_output),
        CodeBlockParser("output", compare_output),
    ]
    document = Sybil(parsers).parse(page)
    document.namespace["the folder"] = folder
    return list(document.examples())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_runs_and_prints_its_output(page, tmp_path):
    for example in examples(page, tmp_path):
        try:
            example.evaluate()
        except Exception:
            pytest.fail(f"{page.name}, line {example.line}:\n{format_exc()}", pytrace=False)


def test_a_wrong_block_and_a_wrong_output_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n\n```output\n2\n```\n")
    _, output = blocks = examples(page, tmp_path)
    blocks[0].evaluate()
    with pytest.raises(AssertionError):
        output.evaluate()


def test_a_wrong_transcript_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```shell-session\n$ echo 1\n1\n$ echo 12\n1…\n$ echo 2\n1\n```\n")
    [block] = examples(page, tmp_path)
    with pytest.raises(AssertionError, match="echo 2"):
        block.evaluate()


@cache
def text_of(page: Path) -> str:
    """Return the text of a page without its blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@for_each("page", PAGES)
def test_the_target_of_every_relative_link_exists(page):
    links = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", text_of(page))
    assert [link for link in links if not (page.parent / link).exists()] == []


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub derives them."""
    counts = Counter[str]()
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        found.add(f"{anchor}-{counts[anchor]}" if counts[anchor] else anchor)
        counts[anchor] += 1
    return found


@for_each("page", PAGES)
def test_every_link_to_a_section_names_one_of_its_headings(page):
    links = re.findall(r"\]\((?!https?://)([^)#\s]*)#([^)\s]+)\)", text_of(page))
    targets = [((page.parent / path if path else page).resolve(), anchor) for path, anchor in links]
    assert [link for link in targets if link[1] not in anchors(link[0])] == []


def test_the_steps_without_make_write_the_run_file_and_the_page(tmp_path):
    """With the Python of the tests instead of a new environment; the Makefile has the same steps."""
    text = (ROOT / "README.md").read_text()
    steps = re.search(r"Without `make`.*?```console\n(.*?)```", text, re.DOTALL)[1].splitlines()
    programs = [step.partition("#")[0].strip() for step in steps[2:]]
    for program in programs:
        name, *arguments = program.replace("examples/", f"{ROOT}/examples/").split()
        assert name == ".venv/bin/python"
        assert run_program(arguments, cwd=tmp_path).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.html", "run.jsonl"]
    makefile = (ROOT / "Makefile").read_text()
    for program in programs:
        assert program.replace(".venv/bin", "$(BIN)") in makefile


def test_every_promise_of_the_readme_links_to_a_section_and_to_tests():
    text = (ROOT / "README.md").read_text()
    table = text[text.index("## Promises") : text.index("## Out of scope")]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    for _, promise, section, tests, _ in rows:
        assert re.search(r"\]\(docs/[^)#]+#[^)]+\)", section), promise
        assert re.search(r"\]\(tests/[^)]+\.py\)", tests), promise


@for_each("stage", LESSONS)
def test_the_reading_order_of_a_lesson_is_the_order_of_the_stage(stage):
    docstring = (ROOT / stage / "__init__.py").read_text()
    core = re.search(r"Reading order:\n((?: +\S.*\n)+)", docstring)[1]
    in_package = re.findall(r"^    (\S+) {2,}\S", core, re.MULTILINE)
    page = (DOCS / "learn" / LESSONS[stage]).read_text()
    in_page = re.findall(rf"`{stage}/(\w+)\.py`", page)
    assert list(dict.fromkeys(in_page)) == in_package


def excerpts():
    """Yield each text block that follows the command of an example: page, example and block."""
    for page in PAGES:
        text = page.read_text()
        for block in re.finditer(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            named = re.findall(r"examples/([\w/]+)\.py", text[: block.start()][-600:])
            heading = text[: block.start()].rfind("\n## ")
            if named and "examples/" in text[max(heading, block.start() - 600) : block.start()]:
                yield page.stem, named[-1], block[1]


@for_each("page, example, block", excerpts())
def test_an_excerpt_of_an_example_is_what_the_example_prints(page, example, block):
    printed = (ROOT / "tests/examples/transcripts" / f"{example.split('/')[-1]}.txt").read_text()
    shown = [line.strip() for line in block.splitlines() if line.strip(" .…")]
    known = [line.strip() for line in printed.splitlines()]
    for line in shown:
        start = line.partition("…")[0].rstrip()
        assert any(start in each for each in known), (page, line)
