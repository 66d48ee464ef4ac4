"""Answer a question with a tool, first by hand and then with a model.

Part 1 runs the tool registry alone. Part 2 runs the agent loop through all four stages: the model
requests a tool call, the code validates and runs it, and the model answers with the result.

Without a key and a network, the embedded model answers. It consists of rules; it is not a language
model. The weather and the time are invented.

    .venv/bin/python examples/basic_usage.py
    .venv/bin/python examples/basic_usage.py --question "What time is it?"
    .venv/bin/python examples/basic_usage.py --model openai:gpt-5-mini  (needs OPENAI_API_KEY)
    .venv/bin/python examples/basic_usage.py --show-messages            (all messages of a request)
    .venv/bin/python examples/basic_usage.py --trace run.jsonl          (a run file; see below)

The output lists the registered tools and their results. Then it shows each turn as input, reply and
interpretation. The last lines are the assistant's reply and the number of tool rounds. Headings and
results have colors if the terminal supports them; NO_COLOR=1 disables them.

A run file contains everything about the run. `.venv/bin/llm-stages inspect run.jsonl` converts it
to a page for a browser.
"""

import argparse
import asyncio
import os
import sys
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from zlib import crc32

sys.path.insert(0, str(Path(__file__).parents[1]))  # import the packages of this checkout

from llm_stages import RunFile
from stage0_gateway import (
    Gateway,
    GatewayError,
    GatewayEvent,
    RequestEvent,
    ResponseEvent,
    RetryEvent,
)
from stage1_context import ContextEngine, ContextError, KeepSystemAndRecent
from stage3_tools import (
    DecisionMade,
    FeedbackGiven,
    LoopEvent,
    RequestSent,
    ToolAnswered,
    ToolLoopDeps,
    ToolRegistry,
    run_tool_loop,
    tool,
)

TEMPERATURES = {"beijing": 22, "shanghai": 22, "北京": 22, "上海": 22, "paris": 18, "oslo": 9}
"""Invented temperatures in degrees Celsius."""

BOLD, DIM, GREEN, CYAN = "1", "2", "32", "36"
"""Terminal codes for styles and colors."""


@tool(effect="read")
def get_weather(city: str) -> dict[str, str | int]:
    """Get the current weather in a city (invented data).

    Args:
        city: Name of the city.
    """
    name = city.strip().lower()
    temp = TEMPERATURES.get(name)
    if temp is None:  # the same city has the same temperature in every run
        temp = crc32(name.encode(errors="replace")) % 31
    return {"city": city, "temp": temp, "unit": "celsius"}


@tool(effect="read")
def get_time() -> str:
    """Get the current date and time (invented data)."""
    return datetime(2026, 1, 1, 12, tzinfo=UTC).isoformat()


async def run_registry(registry: ToolRegistry) -> None:
    """Validate arguments and run tools by name, without a model."""
    print(colored(BOLD, "== 1. The registry alone: no model is used =="), end="\n\n")
    print("Registered tools:", [each.name for each in registry.list()])
    weather = await registry.execute("get_weather", {"city": "Beijing"})
    print("Direct tool call get_weather(Beijing):", weather)
    print("Direct tool call get_time():", await registry.execute("get_time", {}))


async def run_pipeline(
    registry: ToolRegistry,
    question: str,
    model: str | None,
    show_messages: bool,
    trace: RunFile | None,
) -> None:
    """Run the agent loop: the model decides, the code validates and runs the calls."""
    print()
    print(colored(BOLD, "== 2. The whole pipeline: the model decides, the code checks and runs =="))
    print("\nQuestion:", question)
    async with Gateway.from_env(model, on_event=print_request) as gateway:
        context = ContextEngine(window=KeepSystemAndRecent(max_tokens=100_000))
        session = await context.create_session(system_prompt="You are a helpful assistant.")
        deps = ToolLoopDeps(gateway, context, tool_registry=registry)

        def on_event(event: LoopEvent) -> None:
            print_turn(event, show_messages)

        result = await run_tool_loop(deps, session, question, on_event=on_event, trace=trace)
    reply = result.reply if result.reply is not None else f"none ({result.status_reason})"
    print()
    print(colored(BOLD, "Assistant reply:"), colored(GREEN, reply))
    print("Tool rounds executed:", result.tool_rounds)


def print_turn(event: LoopEvent, show_messages: bool) -> None:
    """Print a turn as input, reply and interpretation."""
    match event:
        case RequestSent():
            print()
            print(colored(BOLD, f"-- Turn {event.turn} --"))
            if show_messages:
                for message in event.messages:
                    print(f"  [{message.role}]\n    " + message.text.replace("\n", "\n    "))
            print("  input:   ", in_one_line(event.messages[-1].text))
        case DecisionMade(calls=()):
            print("  reply:   ", in_one_line(event.text))
            print("  meaning:  answer to the user")
        case DecisionMade():
            print("  reply:   ", in_one_line(event.text))
            calls = [f"call {call.name} with {call.arguments}" for call in event.calls]
            print("  meaning: ", *(colored(CYAN, call) for call in calls))
        case ToolAnswered():
            print("  result:  ", colored(GREEN, str(event.result.output)))
        case FeedbackGiven():
            print("  reply:   ", in_one_line(event.text))
            print("  meaning:  invalid; the model receives this feedback:", event.feedback)


def print_request(event: GatewayEvent) -> None:
    """Print the request log of stage 0. It contains neither keys nor headers."""
    match event:
        case RequestEvent():
            log(f"POST {event.url} ({event.messages} messages)")
        case ResponseEvent(usage=usage):
            tokens = "no usage"
            if usage is not None:
                tokens = f"{usage.input_tokens} tokens in, {usage.output_tokens} out"
            log(f"reply from {event.model}: {event.finish_reason}, {tokens}")
        case RetryEvent():
            log(f"attempt {event.attempt} failed, retrying: {event.error}")


def log(text: str) -> None:
    """Print a line of the request log."""
    print(colored(DIM, f"  log:      {text}"))


def in_one_line(text: str) -> str:
    """Return the first 200 characters of a text, without line breaks."""
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:200] + " …"


def colored(code: str, text: str) -> str:
    """Return the text with a terminal code, or the plain text for files and pipes."""
    return f"\033[{code}m{text}\033[0m" if supports_color() else text


def supports_color() -> bool:
    """Return whether standard output is a terminal with colors, and NO_COLOR is unset."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    is_old_console = os.name == "nt" and "WT_SESSION" not in os.environ
    return sys.stdout.isatty() and not is_plain and not is_old_console


def main() -> int:
    """Parse the command line and run both parts; return 1 if the request failed."""
    parser = argparse.ArgumentParser(description="Answer a question with a tool.")
    parser.add_argument("--question", default="What is the weather in Shanghai?")
    parser.add_argument(
        "--model", help="provider:name; the default is LLM_MODEL, or the embedded model"
    )
    parser.add_argument(
        "--show-messages", action="store_true", help="print all messages of each request"
    )
    parser.add_argument("--trace", metavar="FILE", help="append the run to a run file")
    arguments = parser.parse_args()
    registry = ToolRegistry(get_weather, get_time)
    trace = RunFile(arguments.trace) if arguments.trace else None

    async def both_parts() -> None:
        await run_registry(registry)
        await run_pipeline(
            registry, arguments.question, arguments.model, arguments.show_messages, trace
        )

    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for consoles without Unicode
    try:
        asyncio.run(both_parts())
    except (GatewayError, ContextError) as error:
        print(f"\nThe model could not be asked: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
