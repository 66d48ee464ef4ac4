"""Fixtures of run files: every file that a test writes is compared with the JSON Schema of a line."""

import pytest

from llm_stages import RunFile, read_run
from tests.llm_stages.runs.run_files import forge, lines_of, schema_problems


@pytest.fixture
def run_file(tmp_path):
    file = RunFile(tmp_path / "run.jsonl")
    yield file
    if file.path.exists():
        assert schema_problems(file.path) == []


@pytest.fixture
def traced(run_file, new_conversation):
    """`await traced(replies, *tools)` runs a scripted conversation with a run file, and returns the
    run as it is read, and the conversation."""

    async def run(replies, *tools, question="Go.", **options):
        conversation = new_conversation(replies, *tools)
        await conversation.ask(question, trace=run_file, **options)
        return read_run(run_file.path), conversation

    return run


@pytest.fixture
def forged(run_file, tmp_path):
    """`forged(change)` writes the run file again, after `change(lines)`; returns the new path."""

    def write(change):
        path, lines = tmp_path / "forged.jsonl", lines_of(run_file.path)
        change(lines)
        forge(path, lines)
        return path

    return write
