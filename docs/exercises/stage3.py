"""Stage 3: three exercises. Write the body of each function; each has a test below.

    .venv/bin/python -m pytest docs/exercises/stage3.py

All three tests fail with NotImplementedError until the functions are written. Write one after the
other; `-k booking` runs only the test of the first. The public names of `stage0_gateway` and
`stage3_tools` are sufficient. For the third exercise, read `stage3_tools/dialects/prompt.py`: your
dialect has the same three methods with another format.

The solutions are in `tests/docs/solutions/stage3.py`.
"""

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import replace

from stage0_gateway import Gateway, Message, ScriptedModel
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import (
    Dialect,
    LoopEvent,
    Tool,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolLoopResult,
    ToolRegistry,
    run_tool_loop,
    tool,
)


def make_booking_tool(free: dict[str, int]) -> Tool:
    """Create a tool `book_seats(show: str, seats: int)` that checks more than a schema can.

    A valid call subtracts the seats from `free` and returns {"show": …, "booked": …, "left": …}.
    So the tool declares the effect "write".
    An invalid call books nothing and raises a `ToolError` whose hint helps the model:

    - an unknown show: kind "not_found"; the hint lists the known shows;
    - fewer than 1 seat, or more than are free: kind "validation"; the hint contains the number of
      seats that can be booked.

    Args:
        free: Free seats by show; the tool changes it.
    """
    raise NotImplementedError


def storyteller(tell: Callable[[str], None]) -> Callable[[LoopEvent], None]:
    """Create an `on_event` listener that reports each run in one line.

    The listener collects the steps of a run. At the end of the run, it calls `tell` once with the
    steps joined by " > ". The steps, in the order of the events:

    - "get_weather ok" for a result, or "get_weather failed (validation)" with the kind of the
      error;
    - "not understood" for feedback to the model;
    - at the end the status, with the reply if there is one: "completed: It is warm." or
      "parse_failed".

    One listener may receive the events of several runs, one after the other.

    Args:
        tell: Called with the line of a run.
    """
    raise NotImplementedError


def make_line_dialect() -> Dialect:
    """Create a dialect in which the model writes one line: `CALL name {json}` or `SAY text`.

    - `describe` explains the two lines and lists each tool's name and description.
    - `render` returns one system message (the system text of the history, then the description). A
      tool message becomes the user message `RESULT name: text`. An assistant message becomes the
      line that the model would write for it.
    - `read` returns `ToolCalls`, `FinalReply`, or `InvalidReply` with feedback that explains the
      two lines.

    The stored messages are the same as in every other dialect: calls as `tool_calls`, a reply as
    its text.
    """
    raise NotImplementedError


@tool(effect="read")
def get_weather(city: str) -> dict[str, str | int]:
    """Return the current weather in a city (invented data)."""
    return {"city": city, "temp": 22}


def run_script(
    replies: Iterable[str], registry: ToolRegistry, options: ToolLoopOptions
) -> tuple[ToolLoopResult, list[Message]]:
    """Run the loop with a scripted model; return the result and the stored messages."""

    async def run() -> tuple[ToolLoopResult, list[Message]]:
        async with Gateway("openai:any", transport=ScriptedModel(replies)) as gateway:
            context = ContextEngine()
            session = await context.create_session(system_prompt="Be brief.")
            deps = ToolLoopDeps(gateway, context, OutputController(), registry)
            result = await run_tool_loop(deps, session, "Please!", options)
            return result, list(await context.history(session))

    return asyncio.run(run())


def test_make_booking_tool():
    """Three calls fail with a hint; only the fourth call books seats."""
    free = {"Hamlet": 3, "Faust": 0}
    orders = [("Macbeth", 2), ("Hamlet", 5), ("Hamlet", -1), ("Hamlet", 2)]
    replies = [
        json.dumps({"tool": "book_seats", "arguments": {"show": show, "seats": seats}})
        for show, seats in orders
    ]
    replies.append('{"tool": null, "reply": "Two seats."}')
    result, _ = run_script(replies, ToolRegistry(make_booking_tool(free)), ToolLoopOptions())

    unknown, too_many, too_few, good = [record.result for record in result.history]
    assert [each.error.kind for each in (unknown, too_many, too_few)] == [
        "not_found",
        "validation",
        "validation",
    ]
    assert "Hamlet" in unknown.error.hint
    assert "3" in too_many.error.hint
    assert too_many.error.hint in too_many.output
    assert good.output == '{"show":"Hamlet","booked":2,"left":1}'
    assert free == {"Hamlet": 1, "Faust": 0}


def test_storyteller():
    """Two runs result in two lines: one has every kind of step, the other has no reply."""
    lines: list[str] = []
    options = ToolLoopOptions(on_event=storyteller(lines.append))
    registry = ToolRegistry(get_weather)
    calls = [
        json.dumps({"tool": "get_weather", "arguments": {name: "Rome"}})
        for name in ("town", "city")
    ]
    run_script([*calls, "Warm!", '{"tool": null, "reply": "It is warm."}'], registry, options)
    run_script(["No!"] * 3, registry, options)
    assert lines == [
        "get_weather failed (validation) > get_weather ok > not understood > "
        "completed: It is warm.",
        "not understood > not understood > not understood > parse_failed",
    ]


def test_make_line_dialect():
    """The format differs, the history is the same, and an invalid reply leads to feedback."""
    registry = ToolRegistry(get_weather)
    mine = ToolLoopOptions(dialect=make_line_dialect())
    lines = ['CALL get_weather {"city": "Rome"}', "SAY It is 22 degrees."]
    result, stored = run_script(lines, registry, mine)
    assert (result.reply, result.status, result.tool_rounds) == (
        "It is 22 degrees.",
        "completed",
        1,
    )

    decisions = [
        '{"tool": "get_weather", "arguments": {"city": "Rome"}}',
        '{"tool": null, "reply": "It is 22 degrees."}',
    ]
    _, as_json = run_script(decisions, registry, ToolLoopOptions())
    assert [replace(each, raw_text=None) for each in stored] == [
        replace(each, raw_text=None) for each in as_json
    ]

    system, question, call, answer = result.messages
    assert system.role == "system"
    assert system.text.startswith("Be brief.")
    assert get_weather.description in system.text
    assert (question, call) == (Message.user("Please!"), Message.assistant(lines[0]))
    assert answer == Message.user('RESULT get_weather: {"city":"Rome","temp":22}')

    result, _ = run_script(["It is warm.", "SAY Sorry: warm."], registry, mine)
    assert (result.reply, result.tool_rounds) == ("Sorry: warm.", 0)
    assert "SAY" in result.messages[-1].text
