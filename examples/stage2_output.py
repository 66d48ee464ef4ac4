"""Stage 2: validate the text of a model before you use it as data (structured output).

    .venv/bin/python examples/stage2_output.py

Key points:
  1. JSON is extracted from text. Each repair has a name, and truncated JSON is never used.
  2. The data is validated against a schema. One message lists all issues.
  3. Feedback lets the model correct itself: request, validate, send feedback, request again.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # import the packages of this checkout

from stage0_gateway import ChatResponse, Gateway, OfflineModel
from stage2_output import OutputController, feedback

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
TEXTS = {
    "valid": '{"name": "Ada", "age": 36}',
    "wrapped": 'Let me see.\n```json\n{"name": "Ada", "age": 36}\n```\nI hope that helps!',
    "after a draft": '<think>{"name": "A", "age": 1}?</think> {"name": "Ada", "age": 36}',
    "invalid": '{"nam": "Ada", "age": "36"}',
    "broken": "{name: 'Ada', \"age\": 36,}",
    "truncated": '{"name": "Ada", "age": 3',
    "without JSON": "I would rather not say.",
}


def read_texts(controller: OutputController) -> None:
    """Parse and validate seven texts."""
    for kind, text in TEXTS.items():
        # In a program, finish_reason == "length" reports a truncated reply.
        result = controller.parse_and_validate(text, PERSON, truncated=kind == "truncated")
        print(f"{kind}: {text!r}")
        if found := result.extraction:
            repairs = ", ".join(repair.name for repair in found.repairs) or "none"
            print(f"  found {found.value}")
            print(f"  source: {found.source}; repairs: {repairs}; complete: {found.complete}")
        print("  ->", result.data if result.success else feedback(result).replace("\n", "\n     "))


async def correct_a_model(controller: OutputController) -> None:
    """Send feedback to a model whose first reply has a wrong property name."""
    print("\nThe embedded model writes a wrong property name in its first reply:")
    model = OfflineModel(faults=["wrong_argument_name"])
    async with Gateway("offline:teacher", transport=model) as gateway:

        async def chat(messages: list[dict[str, Any]]) -> ChatResponse:
            """Print each request and reply; other programs pass the gateway itself."""
            reply = await gateway.chat(messages)
            request = messages[-1]["content"].replace("\n", "\n  ")
            print(f"  {request}\n  -> {reply.content}")
            return reply

        result = await controller.request(chat, [{"role": "user", "content": "Ada is 36."}], PERSON)
    print(f"{result.attempts} attempts, {result.usage.output_tokens} output tokens: {result.data}")


async def main() -> None:
    """Run both parts."""
    controller = OutputController()
    read_texts(controller)
    await correct_a_model(controller)


if __name__ == "__main__":
    asyncio.run(main())
