"""Stage 3: three exercises. Each function waits for you, and has a test below.

    .venv/bin/python -m pytest docs/exercises/stage3.py

All three tests fail with NotImplementedError until you write the functions; do them one after the
other (`-k booking` runs only the first). You need the faces of `stage0_gateway` and `stage3_tools`.
For the third, keep `stage3_tools/dialects/prompt.py` open: your dialect does the same three things
with other words.
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
    """A tool `book_seats(show: str, seats: int)` that checks what no schema can say.

    It takes the seats off `free` and returns {"show": …, "booked": …, "left": …}. Otherwise it
    books nothing and raises a `ToolError` whose hint lets the model do better:

    - an unknown show: kind "not_found", the hint names the shows there are;
    - fewer than 1 seat, or more than are free: kind "validation", the hint says how many can be
    booked.

    Args:
        free: Seats by show; the tool changes it.
    """
    raise NotImplementedError


def storyteller(tell: Callable[[str], None]) -> Callable[[LoopEvent], None]:
    """An `on_event` listener that tells each run in one line.

    It collects while the run goes on, and calls `tell` once, when the run is over, with the steps
    joined by " > ". A step is, in the order of the events:

    - "get_weather ok" for a result, or "get_weather failed (validation)" with the kind of the
    error;
    - "not understood" where the model got feedback;
    - at the end the status, with the reply if there is one: "completed: It is warm." or
    "parse_failed".

    One listener may hear several runs, one after the other.

    Args:
        tell: Takes the line.
    """
    raise NotImplementedError


def make_line_dialect() -> Dialect:
    """A dialect of two lines: the model writes `CALL name {json}` or `SAY text`, and nothing else.

    - `describe`: some words on the two lines, and each tool's name and description.
    - `render`: one system message (the history's own, then the description); a tool message becomes
    the user
      message `RESULT name: text`; an assistant message becomes the line that the model would write
      for it.
    - `read`: `ToolCalls`, `FinalReply`, or `InvalidReply` with feedback that says what to write.

    What is stored must be the same as in any other dialect: calls as `tool_calls`, a reply as its
    text.
    """
    raise NotImplementedError


@tool(effect="read")
def get_weather(city: str) -> dict[str, str | int]:
    """Tell the current weather in a city (invented data)."""
    return {"city": city, "temp": 22}


def run_script(
    replies: Iterable[str], registry: ToolRegistry, options: ToolLoopOptions
) -> tuple[ToolLoopResult, list[Message]]:
    """Run the loop with a scripted model; returns the result and what is stored."""

    async def run() -> tuple[ToolLoopResult, list[Message]]:
        async with Gateway("openai:any", transport=ScriptedModel(replies)) as gateway:
            context = ContextEngine()
            session = await context.create_session(system_prompt="Be brief.")
            deps = ToolLoopDeps(gateway.chat, context, OutputController(), registry)
            result = await run_tool_loop(deps, session, "Please!", options)
            return result, list(await context.history(session))

    return asyncio.run(run())


def test_make_booking_tool():
    """Three wishes are refused with a hint; the fourth is booked, and only that one."""
    free = {"Hamlet": 3, "Faust": 0}
    wishes = [("Macbeth", 2), ("Hamlet", 5), ("Hamlet", -1), ("Hamlet", 2)]
    replies = [
        json.dumps({"tool": "book_seats", "arguments": {"show": show, "seats": seats}})
        for show, seats in wishes
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
    """Two runs, two lines: one with every kind of step, one that came to nothing."""
    told: list[str] = []
    options = ToolLoopOptions(on_event=storyteller(told.append))
    registry = ToolRegistry(get_weather)
    calls = [
        json.dumps({"tool": "get_weather", "arguments": {name: "Rome"}})
        for name in ("town", "city")
    ]
    run_script([*calls, "Warm!", '{"tool": null, "reply": "It is warm."}'], registry, options)
    run_script(["No!"] * 3, registry, options)
    assert told == [
        "get_weather failed (validation) > get_weather ok > not understood > "
        "completed: It is warm.",
        "not understood > not understood > not understood > parse_failed",
    ]


def test_make_line_dialect():
    """Other words to the model, the same history; and a reply that is neither line is put right."""
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
