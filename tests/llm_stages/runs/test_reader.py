"""Every prefix of a run file can be read; damage and changes are errors that name the line."""

import re

import pytest

from llm_stages import Run, RunFile, RunFileError, RunParent, read_run, read_runs
from stage0_gateway import Message
from stage3_tools import Tool
from tests.llm_stages.runs.run_files import lines_of, write_sub_run
from tests.stage3_tools.conversation import answer, call
from tests.tables import for_each


@pytest.fixture
async def written(run_file, new_conversation):
    """Return the bytes of a file with a call, an invalid reply and an answer."""
    tools = [Tool("f", execute=lambda arguments: "é", effect="read")]
    replies = [call(), "no", answer()]
    await new_conversation(replies, *tools).ask(trace=run_file)
    return run_file.path.read_bytes()


def changed(path, content, old, new):
    assert old in content
    path.write_bytes(content.replace(old, new, 1))
    return path


@pytest.mark.parametrize("step", [31, pytest.param(1, marks=pytest.mark.long)])
async def test_every_prefix_can_be_read(written, tmp_path, step):
    path = tmp_path / "prefix.jsonl"
    whole = read_run_of(path, written)
    newlines = [at for at in range(len(written)) if written[at] == ord("\n")]
    near_newlines = {at + offset for at in newlines for offset in (-1, 0, 1, 2)}
    for end in sorted(
        {*range(0, len(written), step), *near_newlines} - {len(written), len(written) + 1}
    ):
        path.write_bytes(written[:end])
        runs = read_runs(path)
        assert len(runs) <= 1
        for run in runs:
            assert run.end is None
            assert run.status == "unfinished"
            for turn, complete in zip(run.turns, whole.turns, strict=False):
                assert turn.request == complete.request


def read_run_of(path, content):
    path.write_bytes(content)
    return read_run(path)


async def test_a_killed_run_shows_what_it_did(written, tmp_path):
    end = written.index(b'{"type":"result"')
    run = read_run_of(tmp_path / "killed.jsonl", written[:end])
    (turn,) = run.turns
    assert turn.decision.calls[0].name == "f"
    assert [(call.name, call.result) for call in turn.calls] == [("f", None)]


def test_an_empty_file_contains_no_run(tmp_path):
    path = tmp_path / "empty.jsonl"
    path.touch()
    assert read_runs(path) == ()
    with pytest.raises(ValueError, match=r"contains no run"):
        read_run(path)


def test_a_missing_file_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_runs(tmp_path / "missing.jsonl")


@for_each(
    "old, new, kind",
    [
        (b'"content":"Go."', b'"content":"No."', b"message"),
        (b'"description":""', b'"description":"!"', b"tools"),
        (b'"options":{"max', b'"options":{"mix', b"run"),
        (b'"finish_reason":"stop"', b'"finish_reason":"length"', b"reply"),
        (b'"status":"completed","mes', b'"status":"error","mes', b"result"),
        (b'"status":"completed","to', b'"status":"aborted","to', b"end"),
    ],
)
async def test_a_changed_line_is_found(written, tmp_path, old, new, kind):
    path = changed(tmp_path / "changed.jsonl", written, old, new)
    with pytest.raises(RunFileError, match="it was changed") as caught:
        read_runs(path)
    number = written[: written.index(old)].count(b"\n") + 1
    assert caught.value.line == number
    assert f"line {number}:" in str(caught.value)
    assert written.split(b"\n")[number - 1].startswith(b'{"type":"%b"' % kind)


async def test_a_removed_line_is_found(written, tmp_path):
    lines = written.splitlines(keepends=True)
    path = tmp_path / "removed.jsonl"
    for number in range(len(lines) - 1):
        path.write_bytes(b"".join(lines[:number] + lines[number + 1 :]))
        with pytest.raises(RunFileError):
            read_runs(path)


async def test_exchanged_lines_are_found(written, tmp_path):
    lines = written.splitlines(keepends=True)
    path = tmp_path / "exchanged.jsonl"
    for number in range(len(lines) - 1):
        path.write_bytes(
            b"".join([*lines[:number], lines[number + 1], lines[number], *lines[number + 2 :]])
        )
        with pytest.raises(RunFileError):
            read_runs(path)


@for_each(
    "line",
    [b"", b"no json", b"[]", b"7", b'{"type":"message"}', b"{}", b'{"type":"end"}', b"\xff\xfe"],
)
async def test_a_damaged_line_is_an_error_with_its_number(written, tmp_path, line):
    lines = written.split(b"\n")
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(b"\n".join([*lines[:3], line, *lines[3:]]))
    with pytest.raises(RunFileError, match=r"line 4: it is damaged"):
        read_runs(path)


async def test_another_version_is_refused(written, tmp_path):
    path = changed(tmp_path / "new.jsonl", written, b'"version":1', b'"version":2')
    with pytest.raises(RunFileError, match=r"line 1: the format has version 2; 1 is supported"):
        read_runs(path)


async def test_a_file_without_its_header_is_refused(written, tmp_path):
    path = tmp_path / "part.jsonl"
    start = written.index(b'{"type":"request"')
    path.write_bytes(written[start:])
    with pytest.raises(RunFileError, match="the header of its run is missing"):
        read_runs(path)


async def test_one_of_several_runs_is_selected_by_its_id(run_file, new_conversation):
    replies = [answer(str(number)) for number in range(3)]
    conversation = new_conversation(replies)
    for number in range(3):
        await conversation.ask(f"{number}", trace=run_file)
    runs = read_runs(run_file.path)
    assert [run.end.reply for run in runs] == ["0", "1", "2"]
    assert read_run(run_file.path) == runs[2]
    assert read_run(run_file.path, runs[0].id) == runs[0]
    with pytest.raises(ValueError, match=re.escape(f"Its runs: {runs[0].id}, ")):
        read_run(run_file.path, "00000000")


async def test_a_fork_names_its_parent(tmp_path, new_conversation):
    parent = RunParent("run.jsonl", "0123abcd", 3)
    file = RunFile(tmp_path / "fork.jsonl", parent=parent)
    await new_conversation([answer()]).ask(trace=file)
    assert read_run(file.path).parent == parent


async def test_values_are_frozen_and_equal_after_another_reading(written, run_file):
    first, second = read_run(run_file.path), read_run(run_file.path)
    assert first == second
    with pytest.raises(AttributeError):
        first.end = None
    assert isinstance(first, Run)
    assert all(isinstance(each, Message) for each in first.turns[0].request.messages)


async def test_a_line_can_be_read_by_any_json_parser(written, run_file):
    types = [line["type"] for line in lines_of(run_file.path)]
    assert types[0] == "run"
    assert types[-1] == "end"
    assert {*types} == {"run", "message", "tools", "request", "reply", "result", "end"}


async def test_the_newest_run_is_not_one_that_a_tool_made(tmp_path):
    path = tmp_path / "run.jsonl"
    await write_sub_run(path)
    outer, inner = read_runs(path)
    assert (read_run(path), read_run(path, inner.id)) == (outer, inner)
    assert (outer.end.reply, inner.end.reply) == ("Fine.", "Cats sleep.")
    await write_sub_run(path)
    assert read_run(path) == read_runs(path)[2]
