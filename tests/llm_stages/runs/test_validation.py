"""Each line is validated by the JSON Schema, also if its checksums are right."""

import random
from copy import deepcopy

import pytest

from llm_stages import RunFileError, read_runs
from llm_stages.runs import reader
from stage3_tools import Edit, RunLimits, Tool, ToolError
from tests.llm_stages.cli.command import llm_stages
from tests.stage3_tools.conversation import answer, call
from tests.tables import for_each

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


VALUES = [
    *(None, True, -1, 0, 1e308, 10**40, "", "x", "\ud800", float("nan"), [], {}, ["a"], {"a": 1}),
    *([[0, 10**9]], [[0, -1]], [[-5, 5]], "</script>", "../../etc/passwd", nested(320)),
    *(nested(250), {"type": "object", "$ref": "#"}, {"type": 5}, [{"type": "image"}]),
    *([{"type": "json", "value": nested(200)}], "\x1b]52;c;aGk=\x07"),
]
COMMANDS = [
    ["inspect", "FILE", "-o", "OUT"],
    ["replay", "FILE"],
    ["replay", "FILE", "--from", "2", "--model", "offline:teacher", "-o", "NEW"],
    ["export", "FILE", "--to", "atif", "-o", "OUT"],
    ["export", "FILE", "--to", "otel", "-o", "OUT"],
    ["diff", "FILE", "ORIGINAL", "-o", "OUT"],
    ["diff", "ORIGINAL", "FILE"],
]


@pytest.fixture
async def original(traced, run_file):
    """A file with most kinds of lines: calls, a retry, progress, approval, feedback, an end."""
    failed = []

    def f(arguments, context):
        context.progress({"step": 1})
        if not failed:
            failed.append(True)
            raise ToolError("network", "down", retryable=True, retry_delay=0)
        return {"n": 1}

    tool = Tool("f", "F.", SCHEMA, f, effect="idempotent", needs_approval=True, retry=1)
    await traced(
        ["no", call(n=1), call(n=1), answer()],
        tool,
        approve=lambda request: Edit({"n": 2}),
        limits=RunLimits(tokens=10**6),
        temperature=0.5,
    )
    run_file.close()
    return run_file.path


def places(value, path=()):
    yield path
    if isinstance(value, dict):
        for name in value:
            yield from places(value[name], (*path, name))
    elif isinstance(value, list):
        for index in range(len(value)):
            yield from places(value[index], (*path, index))


def put(value, path, new):
    for step in path[:-1]:
        value = value[step]
    value[path[-1]] = new


@pytest.mark.parametrize("count", [10, pytest.param(100, marks=pytest.mark.long)])
def test_forged_values_end_no_command_with_a_traceback(original, forged, tmp_path, capsys, count):
    choice = random.Random(1)
    for _ in range(count):
        value = deepcopy(choice.choice(VALUES))

        def change(lines, value=value):
            line = choice.choice(lines)
            known = [path for path in places(line) if path and path[0] not in ("type", "check")]
            put(line, choice.choice([path for path in known if path != ("hash",)]), value)

        try:
            path = forged(change)
        except (TypeError, UnicodeEncodeError, KeyError):  # no such file can be written
            continue
        names = {"FILE": path, "ORIGINAL": original, "OUT": tmp_path / "out"}
        for command in COMMANDS:
            names["NEW"] = tmp_path / f"new-{choice.random()}.jsonl"
            assert llm_stages(*(names.get(part, part) for part in command)) in (0, 1, 2)
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    assert "\x1b]52" not in shown.out + shown.err


@for_each(
    "kind, field, value, problem",
    [
        ("run", "time", 1e308, "Its value at 'time' is invalid: Input should be less than"),
        ("run", "time", float("nan"), "It is not valid JSON."),
        ("run", "options", {"limits": 7}, "Its value at 'options/limits' is invalid"),
        ("run", "options", {"max_tool_rounds": "7"}, "Its value at 'options/max_tool_rounds'"),
        ("run", "dialect", [], "Its value at 'dialect' is invalid"),
        ("request", "messages", [[0, 1]], "the previous request has no messages 0 to 1"),
        ("request", "messages", ["0123456789abcdef"], "does not contain '0123456789abcdef'"),
        ("reply", "message", 7, "Its value at 'message' is invalid"),
        ("reply", "unknown", 7, "Its value at 'unknown' is invalid: Extra inputs"),
        ("result", "id", "x", "does not contain 'x'"),
        ("result", "details", nested(320), "It has more than 300 nested levels."),
        ("end", "usage", {"input_tokens": 10**400}, "Its value at 'usage/input_tokens'"),
        ("end", "at", "1", "Its value at 'at' is invalid: Input should be a valid number."),
    ],
)
async def test_an_invalid_value_is_named_with_its_line(
    original, forged, kind, field, value, problem
):
    numbers = []

    def change(lines):
        (number, line), *_ = ((at, one) for at, one in enumerate(lines, 1) if one["type"] == kind)
        line[field] = value
        numbers.append(number)

    path = forged(change)
    with pytest.raises(RunFileError) as caught:
        read_runs(path)
    assert caught.value.line == numbers[0]
    assert f", line {numbers[0]}: it is damaged: " in str(caught.value)
    assert problem in str(caught.value)


@pytest.mark.parametrize("most", [1_000, pytest.param(10_000_000, marks=pytest.mark.long)])
async def test_slices_cannot_multiply_the_messages(original, forged, monkeypatch, most):
    assert reader._MAX_LISTED == 10_000_000
    monkeypatch.setattr(reader, "_MAX_LISTED", most)

    def change(lines):
        request = next(line for line in lines if line["type"] == "request")
        count = len(request["messages"])
        while 2 * count <= most:  # no single request exceeds the limit
            double = {**request, "messages": [[0, count], [0, count]]}
            double.pop("stored", None)
            lines.append(double)
            count *= 2

    with pytest.raises(RunFileError, match=f"list more than {most:,} messages"):
        read_runs(forged(change))


@pytest.fixture
async def deep(traced, run_file):
    """A file with values that are almost as deep as the recorder writes them."""

    def f(arguments, context):
        context.progress(nested(250))
        return "ok"

    parameters = {"type": "object", "properties": {"a": {"default": nested(200)}}}
    await traced([call(n=1), answer()], Tool("f", "F.", parameters, f, effect="read"))
    return run_file.path


def test_deep_values_of_a_run_can_be_used(deep, tmp_path):
    names = {"FILE": deep, "ORIGINAL": deep, "OUT": tmp_path / "out"}
    for command in COMMANDS:
        if "--from" not in command:
            assert llm_stages(*(names.get(part, part) for part in command)) == 0
