"""Stage 2: three exercises. Each function waits for you, and has a test below.

    .venv/bin/python -m pytest docs/exercises/stage2.py

All three tests fail with NotImplementedError until you write the functions; do them one after the other
(`-k all_that_fit` runs only the first). You need nothing but the face of `stage2_output`. If you are stuck,
look at what `extract_json` and `ParseResult` carry besides the value.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from stage0_gateway import Gateway, ScriptedModel
from stage2_output import ParseResult

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}


def all_that_fit(text: str, schema: dict[str, Any]) -> list[Any]:
    """Every JSON value in a text that fits a schema, in the order of the text.

    `parse_and_validate` returns the last one that fits; a list of people in prose needs them all. Hint: an
    `Extraction` says where its value begins and ends. What happens if you blank that out, and look again?

    Args:
        text: Anything a model wrote.
        schema: What each value must be.

    Returns:
        The values; an empty list if none fits.
    """
    raise NotImplementedError


def one_or_many(text: str, schema: dict[str, Any], most: int = 3) -> ParseResult:
    """Accept one value that fits a schema, or a list of 1 to `most` of them.

    Models asked for "the decisions" write a bare object when there is only one. Build a schema out of the
    given one that allows both, let the controller judge, and spare the caller the difference.

    Args:
        text: Anything a model wrote.
        schema: What each value must be.
        most: The longest list to accept.

    Returns:
        The controller's result; on success `data` is always a list.
    """
    raise NotImplementedError


async def ask_with_hints(
    chat: Any, question: str, schema: dict[str, Any], hints: Sequence[str]
) -> ParseResult:
    """Ask for data, and help a little more after each bad reply.

    Send the question as one user message. After the n-th bad reply append it as an assistant message, and a
    user message: the feedback, a line break, and the n-th hint. When the hints are used up, ask no more. A
    reply that was cut off is a bad reply.

    Args:
        chat: Takes a list of messages; returns a reply with `content` and `finish_reason`.
        question: What to ask.
        schema: What the data must be.
        hints: From a nudge to the whole solution.

    Returns:
        The result of the last reply, with the number of `attempts`.
    """
    raise NotImplementedError


def test_all_that_fit():
    """Three of six values fit, and one of them stands in a code fence."""
    text = """I found {"name": "Ada", "age": 36} on {"page": 7}, and then:
    ```json
    {"name": "Grace", "age": 85}
    ```
    Not sure about {"name": "Alan"} or {"name": "A", "age": "41"}, but {"name": "Emmy", "age": 53} is right."""
    found = all_that_fit(text, PERSON)
    assert [each["name"] for each in found] == ["Ada", "Grace", "Emmy"]
    assert all_that_fit("Nobody.", PERSON) == []


def test_one_or_many():
    """One is a list of one; too many, too few or wrong ones are errors with their place."""
    ada, grace = {"name": "Ada", "age": 36}, {"name": "Grace", "age": 85}
    assert one_or_many('Only one: {"name": "Ada", "age": 36}', PERSON).data == [ada]
    both = '[{"name": "Ada", "age": 36}, {"name": "Grace", "age": 85}]'
    assert one_or_many(both, PERSON).data == [ada, grace]

    too_many = one_or_many(both, PERSON, most=1)
    assert not too_many.success
    assert too_many.data is None

    wrong = one_or_many(both.replace("85", '"85"'), PERSON)
    assert [(issue.path, issue.rule) for issue in wrong.errors] == [("/1/age", "type")]
    assert not one_or_many("[]", PERSON).success


def test_ask_with_hints():
    """Each hint follows its feedback; when the hints are used up, the last result counts."""
    hints = ["Age is a number.", 'Write {"name": "Ada", "age": 36}.']
    bad = '{"name": "Ada", "age": "36"}'

    async def ask(replies: list[str]) -> tuple[ParseResult, ScriptedModel]:
        model = ScriptedModel(replies)
        async with Gateway("openai:any", transport=model) as gateway:
            return await ask_with_hints(gateway.chat, "Who is Ada?", PERSON, hints), model

    result, model = asyncio.run(ask([bad, "Ada!", '{"name": "Ada", "age": 36}']))
    assert (result.data, result.attempts) == ({"name": "Ada", "age": 36}, 3)
    last = model.requests[-1].messages
    assert [message.role for message in last] == ["user", "assistant", "user", "assistant", "user"]
    assert "/age must be integer" in last[2].text
    assert last[2].text.endswith("\n" + hints[0])
    assert last[4].text.endswith("\n" + hints[1])

    result, model = asyncio.run(ask([bad, bad, bad]))
    assert (result.success, result.attempts, len(model.requests)) == (False, 3, 3)
