"""Stage 2: what a model writes is a claim, not data.

    python examples/stage2_output.py

Key points:
  1. JSON is found wherever it stands; what was mended is named, and what was cut off is never used.
  2. What was found is held to the schema; all issues are told at once, without repeating values.
  3. A model that is told what is wrong can mend it: ask, check, feed back, ask again.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the packages, before examples of the same name

from stage0_gateway import ChatResponse, Gateway, OfflineModel
from stage2_output import OutputController, feedback

FIELDS = {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}}
PERSON = {
    "type": "object",
    "properties": FIELDS,
    "required": ["name", "age"],
    "additionalProperties": False,
}
TEXTS = {
    "good": '{"name": "Ada", "age": 36}',
    "wrapped": 'Let me see.\n```json\n{"name": "Ada", "age": 36}\n```\nI hope that helps!',
    "a draft first": '<think>{"name": "A", "age": 1}?</think> {"name": "Ada", "age": 36}',
    "wrong": '{"nam": "Ada", "age": "36"}',
    "broken": "{name: 'Ada', \"age\": 36,}",
    "cut": '{"name": "Ada", "age": 3',
    "hopeless": "I would rather not say.",
}


async def main() -> None:
    """Read seven texts; then let a model be corrected."""
    controller = OutputController()
    for kind, text in TEXTS.items():
        # A real reply says so itself when it was cut off: its finish_reason is "length".
        result = controller.parse_and_validate(text, PERSON, truncated=kind == "cut")
        print(f"{kind}: {text!r}")
        if found := result.extraction:
            repairs = ", ".join(repair.name for repair in found.repairs) or "none"
            print(
                f"  found {found.value} ({found.source}; repairs: {repairs}; "
                f"complete: {found.complete})"
            )
        print("  ->", result.data if result.success else feedback(result).replace("\n", "\n     "))

    print("\nThe embedded model gets a name wrong, on purpose:")
    async with Gateway(
        "offline:teacher", transport=OfflineModel(faults=["wrong_argument_name"])
    ) as gateway:

        async def chat(
            messages: list[dict[str, Any]],
        ) -> ChatResponse:  # `gateway.chat` itself takes schemas
            reply = await gateway.chat(messages)
            told = messages[-1]["content"].replace("\n", "\n  ")
            print(f"  {told}\n  -> {reply.content}")
            return reply

        result = await controller.request(chat, [{"role": "user", "content": "Ada is 36."}], PERSON)
    print(f"{result.attempts} attempts, {result.usage.output_tokens} tokens written: {result.data}")


if __name__ == "__main__":
    asyncio.run(main())
