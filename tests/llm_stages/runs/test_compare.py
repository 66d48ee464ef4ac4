"""Two runs are compared turn by turn, as text or side by side."""

import json

import pytest

from llm_stages import RunFile, read_run
from llm_stages.runs.compare import compare_runs
from llm_stages.runs.page.comparison import render_comparison
from stage3_tools import Tool
from tests.llm_stages.cli.command import llm_stages
from tests.stage3_tools.conversation import answer, call

HOSTILE = "<script>alert(1)</script> </pre> \ud83d & \u202e"


@pytest.fixture
def write_run(tmp_path, new_conversation):
    """`await write_run(name, replies, result)` writes a run file and returns its path."""

    async def record(name, replies, result="ok", question="Go."):
        tool = Tool("f", execute=lambda arguments: result, effect="read")
        file = RunFile(tmp_path / name)
        await new_conversation(replies, tool).ask(question, trace=file)
        return file.path

    return record


async def test_identical_runs_have_no_difference(write_run, capsys):
    first = await write_run("a.jsonl", [call(), answer("done")])
    second = await write_run("b.jsonl", [call(), answer("done")])
    assert all(turn.is_equal for turn in compare_runs(read_run(first), read_run(second)))
    assert llm_stages("diff", first, second) == 0
    assert capsys.readouterr().out == "identical.\n"


async def test_each_difference_is_in_its_turn_and_part(write_run, capsys):
    first = await write_run("a.jsonl", [call(), answer("sunny")], result="22")
    second = await write_run("b.jsonl", [call(), answer("rainy")], result="9")
    turns = compare_runs(read_run(first), read_run(second))
    assert [[part.name for part in turn.parts if not part.is_equal] for turn in turns] == [
        ["calls"],
        ["request", "reply", "decision"],
        ["end"],
    ]
    assert llm_stages("diff", first, second) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "turn 1, calls:" in lines
    assert "  -  completed: 22" in lines
    assert "  +  completed: 9" in lines
    assert lines[-1] == "2 of 2 turns differ, and the ending."


async def test_runs_of_different_length_are_compared_to_the_longer_end(write_run, capsys):
    first = await write_run("a.jsonl", [answer("done")])
    second = await write_run("b.jsonl", [call(), call(), answer("done")])
    turns = compare_runs(read_run(first), read_run(second))
    assert [turn.number for turn in turns] == [1, 2, 3, 0]
    assert all(part.first == "" for part in turns[2].parts)
    assert turns[-1].is_equal
    assert llm_stages("diff", first, second) == 1
    assert capsys.readouterr().out.endswith("3 of 3 turns differ.\n")


async def test_the_page_shows_hostile_texts_as_text_and_has_no_script(write_run, tmp_path, capsys):
    first = await write_run("a.jsonl", [call(), answer("done")], HOSTILE, question=HOSTILE)
    second = await write_run("b.jsonl", [call(), answer("done")], "x" * 1000, question="Go.")
    page = tmp_path / "diff.html"
    assert llm_stages("diff", first, second, "-o", page) == 1
    html = page.read_text(encoding="utf-8")
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &lt;/pre&gt;" in html
    assert "default-src 'none'" in html
    assert html.count("<pre") == html.count("</pre>")
    assert str(page) in capsys.readouterr().err


async def test_the_names_of_files_are_text(write_run):
    run = read_run(await write_run("a.jsonl", [answer("done")]))
    html = render_comparison(compare_runs(run, run), "<b>.jsonl", '"x".jsonl')
    assert "<b>" not in html
    assert "&lt;b&gt;.jsonl" in html


async def test_the_comparison_is_printed_as_json_for_scripts(write_run, capsys):
    first = await write_run("a.jsonl", [answer("one")])
    second = await write_run("b.jsonl", [answer("two")])
    assert llm_stages("diff", first, second, "--json") == 1
    rows = json.loads(capsys.readouterr().out)
    assert [(row["turn"], row["part"]) for row in rows] == [
        (1, "reply"),
        (1, "decision"),
        (0, "end"),
    ]


async def test_a_missing_file_is_an_error(write_run, tmp_path, capsys):
    first = await write_run("a.jsonl", [answer("one")])
    assert llm_stages("diff", first, tmp_path / "no.jsonl") == 1
    assert "no.jsonl: No such file" in capsys.readouterr().err
