"""Fixtures of run files: every file that a test writes is compared with the JSON Schema of a line."""

import json
from hashlib import blake2b
from importlib.resources import files
from zlib import crc32

import pytest
from jsonschema import Draft202012Validator

from stage3_tools import RunFile, read_run

SCHEMA = json.loads((files("stage3_tools") / "trace" / "run.schema.json").read_text())
_LINES = {
    kind.removesuffix("_line"): Draft202012Validator({**schema, "$defs": SCHEMA["$defs"]})
    for kind, schema in SCHEMA["$defs"].items()
    if kind.endswith("_line")
}


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def problems(path):
    """Return what is wrong with the lines of a file, by the JSON Schema."""
    return [
        f"{number} ({line['type']}): {error.message}"
        for number, line in enumerate(lines_of(path), 1)
        for error in _LINES[line["type"]].iter_errors(line)
    ]


def forge(path, lines):
    """Write lines with new hashes and checksums, as somebody who changes a file on purpose."""
    names, checks, content, written = {}, {}, b"", b""

    def renamed(value):
        if isinstance(value, list):
            return [renamed(each) for each in value]
        if isinstance(value, dict):
            return {name: renamed(each) for name, each in value.items()}
        return names.get(value, value) if isinstance(value, str) else value

    for line in lines:
        if (kind := line["type"]) in ("message", "tools"):
            body = json.dumps(line[kind], separators=(",", ":"))
            names[line["hash"]] = hash = blake2b(body.encode(), digest_size=8).hexdigest()
            content += f'{{"type":"{kind}","hash":"{hash}","{kind}":{body}}}\n'.encode()
            continue
        fields = renamed({name: value for name, value in line.items() if name != "check"})
        text = json.dumps(fields, separators=(",", ":")).encode()
        before = 0 if kind == "run" else checks[line["run"]]
        checks[line["run"]] = check = crc32(content + text, before)
        written += content + text[:-1] + b',"check":%d}\n' % check
        content = b""
    path.write_bytes(written)


@pytest.fixture
def forged(run_file, tmp_path):
    """`forged(change)` writes the run file again, after `change(lines)`; returns the new path."""

    def write(change):
        path, lines = tmp_path / "forged.jsonl", lines_of(run_file.path)
        change(lines)
        forge(path, lines)
        return path

    return write


@pytest.fixture
def schema_problems():
    return problems


@pytest.fixture
def run_file(tmp_path):
    file = RunFile(tmp_path / "run.jsonl")
    yield file
    if file.path.exists():
        assert problems(file.path) == []


@pytest.fixture
def lines(run_file):
    """Return the lines of the file as values."""
    return lambda: lines_of(run_file.path)


@pytest.fixture
def traced(run_file, new_conversation):
    """Run a scripted conversation with a trace; return the run as it is read, and the conversation."""

    async def run(replies, *tools, question="Go.", conversation=None, resume=False, **options):
        conversation = conversation or new_conversation(replies, *tools)
        await conversation.ask(question, resume=resume, trace=run_file, **options)
        return read_run(run_file.path), conversation

    return run
