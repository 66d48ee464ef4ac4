"""The main job: a question, a tool, an answer.

First the registry alone, without a model; then the whole pipeline through all four stages. With no
key and no network the embedded model answers: it is rules, not a language model, and the weather,
like the clock that stands still, is invented.

    python examples/basic_usage.py
    python examples/basic_usage.py --question "What time is it?"
    python examples/basic_usage.py --model openai:gpt-5-mini       (with OPENAI_API_KEY set)
    python examples/basic_usage.py --show-messages                 (exactly what the model sees)

It prints the registered tools and what they return, then each turn as input, reply, and what the
code made of it, and at last the assistant's reply and the number of tool rounds.
"""

import argparse
import asyncio
import sys
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the packages, before examples of the same name

from stage0_gateway import (
    Gateway,
    GatewayError,
    GatewayEvent,
    RequestEvent,
    ResponseEvent,
    RetryEvent,
)
from stage1_context import ContextEngine, ContextError, KeepSystemAndRecent
from stage2_output import OutputController
from stage3_tools import (
    DecisionMade,
    FeedbackGiven,
    LoopEvent,
    ToolAnswered,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    TurnStarted,
    run_tool_loop,
    tool,
)


@tool(effect="read")
def get_weather(city: str) -> dict[str, str | int]:
    """Tell the current weather in a city (invented data).

    Args:
        city: Name of the city.
    """
    return {"city": city, "temp": 22, "unit": "celsius"}


@tool(effect="read")
def get_time() -> str:
    """Tell the current date and time (a clock that stands still)."""
    return datetime(2026, 1, 1, 12, tzinfo=UTC).isoformat()


async def the_registry_alone(registry: ToolRegistry) -> None:
    """Tools are found by name, checked and run; no model takes part."""
    print("== 1. The registry alone: no model takes part ==\n")
    print("Registered tools:", [each.name for each in registry.list()])
    print(
        "Direct tool call get_weather(Beijing):",
        await registry.execute("get_weather", {"city": "Beijing"}),
    )
    print("Direct tool call get_time():", await registry.execute("get_time", {}))


async def the_whole_pipeline(
    registry: ToolRegistry, question: str, model: str | None, show: bool
) -> None:
    """The model decides, stage 2 checks, stage 3 runs the tool, the model gets the result."""
    print("\n== 2. The whole pipeline: the model decides, the code checks and runs ==\n")
    print("Question:", question)
    async with Gateway.from_env(model, on_event=print_request) as gateway:
        context = ContextEngine(window=KeepSystemAndRecent(max_tokens=100_000))
        session = await context.create_session(system_prompt="You are a helpful assistant.")
        deps = ToolLoopDeps(gateway.chat, context, OutputController(), registry)
        options = ToolLoopOptions(on_event=lambda event: print_turn(event, show))
        result = await run_tool_loop(deps, session, question, options)
    print(
        "\nAssistant reply:",
        result.reply if result.reply is not None else f"none ({result.status_reason})",
    )
    print("Tool rounds executed:", result.tool_rounds)


def print_turn(event: LoopEvent, show_messages: bool) -> None:
    """Each turn as input, reply, and what the code made of it."""
    match event:
        case TurnStarted():
            print(f"\n-- Turn {event.turn} --")
            for message in event.messages if show_messages else ():
                print(f"  [{message.role}]\n    " + message.text.replace("\n", "\n    "))
            print("  input:   ", _one_line(event.messages[-1].text))
        case DecisionMade(calls=()):
            print("  reply:   ", _one_line(event.text))
            print("  made of it: an answer to the user")
        case DecisionMade():
            print("  reply:   ", _one_line(event.text))
            print(
                "  made of it:",
                *(f"call {call.name} with {call.arguments}" for call in event.calls),
            )
        case ToolAnswered():
            print("  result:  ", event.result.output)
        case FeedbackGiven():
            print("  reply:   ", _one_line(event.text))
            print("  made of it: cannot be used; the model is told:", event.feedback)


def print_request(event: GatewayEvent) -> None:
    """The request log of stage 0; it never holds a key or a header."""
    match event:
        case RequestEvent():
            print(f"  log:      POST {event.url} ({event.messages} messages)")
        case ResponseEvent(usage=usage):
            tokens = (
                f"{usage.input_tokens} tokens in, {usage.output_tokens} out"
                if usage
                else "no usage"
            )
            print(f"  log:      reply from {event.model}: {event.finish_reason}, {tokens}")
        case RetryEvent():
            print(f"  log:      try {event.attempt} failed, trying again: {event.error}")


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:200] + " …"


def main() -> int:
    """Read the arguments and run both parts; 1 if the model could not be asked."""
    parser = argparse.ArgumentParser(description="A question, a tool, an answer.")
    parser.add_argument("--question", default="What is the weather in Shanghai?")
    parser.add_argument(
        "--model", help="provider:name; without it LLM_MODEL counts, or the embedded model"
    )
    parser.add_argument(
        "--show-messages", action="store_true", help="print exactly what the model sees"
    )
    arguments = parser.parse_args()
    registry = ToolRegistry(get_weather, get_time)

    async def both_parts() -> None:
        await the_registry_alone(registry)
        await the_whole_pipeline(
            registry, arguments.question, arguments.model, arguments.show_messages
        )

    if isinstance(
        sys.stdout, TextIOWrapper
    ):  # a console that cannot show a character shows its code
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        asyncio.run(both_parts())
    except (GatewayError, ContextError) as error:
        print(f"\nThe model could not be asked: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
