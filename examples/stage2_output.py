"""Stage 2: what a model writes is a claim, not data.

    python examples/stage2_output.py

Key points:
  1. JSON is found wherever it stands: bare, in a fence, behind drafts.
  2. Every candidate is held to the schema; all issues are told at once, without repeating values.
  3. A model that is told what is wrong can mend it: ask, check, feed back, ask again.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the packages, before examples of the same name

from stage0_gateway import Gateway, ScriptedModel
from stage2_output import OutputController, feedback

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
TEXTS = {
    "good": '{"name": "Ada", "age": 36}',
    "wrapped": 'Let me see.\n```json\n{"name": "Ada", "age": 36}\n```\nI hope that helps!',
    "a draft first": '<think>{"name": "A", "age": 1}?</think> {"name": "Ada", "age": 36}',
    "wrong": '{"nam": "Ada", "age": "36"}',
    "broken": '{"name": "Ada", "age": ',
    "hopeless": "I would rather not say.",
}


async def main() -> None:
    """Read six texts; then let a model be corrected."""
    controller = OutputController()
    for kind, text in TEXTS.items():
        result = controller.parse_and_validate(text, PERSON)
        print(f"{kind}: {text!r}")
        print("  ->", result.data if result.success else feedback(result).replace("\n", "\n     "))

    print("\nA model (scripted) that is corrected in its second attempt:")
    model = ScriptedModel([TEXTS["wrong"], TEXTS["good"]])
    async with Gateway("openai:any", transport=model) as gateway:
        result = await controller.request(gateway.chat, [{"role": "user", "content": "Who is Ada?"}], PERSON)
    print("  it was told:", model.requests[1].messages[-1].text.replace("\n", "\n     "))
    print(f"  data after {result.attempts} attempts:", result.data)


if __name__ == "__main__":
    asyncio.run(main())
