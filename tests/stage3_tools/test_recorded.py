"""Real tool sets with valid and invalid calls (BFCL): some rows, and every fifth in `make test-long`."""

import json

import pytest

from stage3_tools import Tool, ToolError, ToolRegistry
from tests.stage3_tools.conversation import DONE

EVERY = [15, pytest.param(5, marks=pytest.mark.long)]


@pytest.fixture(scope="module")
def harness(recorded):
    return recorded("tools.jsonl")[1]


@pytest.fixture(scope="module", params=EVERY)
def rows(recorded, request):
    return recorded("tools.jsonl")[0][:: request.param]


def noting(row):
    """Return the tools of a row, and the list of calls that reach them."""
    reached = []

    def tool(plain):
        async def execute(arguments):
            reached.append([plain["name"], arguments])
            return "ok"

        return Tool(plain["name"], plain["description"], plain["parameters"], execute)

    return [tool(plain) for plain in row["tools"]], reached


def pairs(calls):
    return [[call["name"], call["arguments"]] for call in calls]


async def test_valid_calls_reach_the_tool_unchanged(harness, rows, say):
    checked = 0
    for row in rows:
        tools, reached = noting(row)
        registry = ToolRegistry(*tools)
        for call in row["valid_calls"]:
            await registry.execute(call["name"], call["arguments"])
        assert harness.same(reached, pairs(row["valid_calls"])), row["id"]
        checked += len(reached)
    assert checked > 50
    say(f"registry.execute: {checked} valid calls of {len(rows)} rows")


async def test_valid_calls_reach_the_tool_unchanged_through_the_loop(
    harness, rows, say, new_conversation
):
    checked = 0
    for row in rows:
        if not row["valid_calls"]:
            continue
        tools, reached = noting(row)
        decisions = [
            json.dumps({"tool": c["name"], "arguments": c["arguments"]}) for c in row["valid_calls"]
        ]
        conversation = new_conversation([*decisions, DONE], *tools)
        result = await conversation.ask(row["question"], max_tool_rounds=len(decisions) + 1)
        assert (result.status, result.reply, await conversation.problems()) == (
            "completed",
            "done",
            [],
        ), row["id"]
        assert harness.same(reached, pairs(row["valid_calls"])), row["id"]
        checked += len(reached)
    say(f"prompt dialect: {checked} valid calls of {len(rows)} rows")


async def test_invalid_calls_raise_without_running_and_the_error_names_the_argument(rows, say):
    checked = 0
    for row in rows:
        tools, reached = noting(row)
        registry = ToolRegistry(*tools)
        for call in row.get("invalid_calls", ()):
            with pytest.raises(ToolError) as caught:
                await registry.execute(call["name"], call["arguments"])
            argument = call["why"].rsplit(" ", 1)[-1]
            paths = [
                issue.path.split("/")[1] for issue in caught.value.details["issues"] if issue.path
            ]
            assert (caught.value.kind, argument in paths) == ("validation", True), (row["id"], call)
            checked += 1
        assert reached == [], row["id"]
    assert checked > 50
    say(f"registry.execute: {checked} invalid calls of {len(rows)} rows refused")
