"""Stage 2: three exercises. Write the three functions; each one has a test below.

    .venv/bin/python -m pytest docs/exercises/stage2.py

Each test fails with NotImplementedError until you write its function. Start with the first:
`-k without_guesses` runs only its test. The exercises use only the public names of
`stage2_output`. If you are stuck, read the attributes of `ParseResult` and `Extraction`.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from stage0_gateway import ChatResponse, Gateway, Message, ScriptedModel
from stage2_output import ParseResult, feedback

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}


def without_guesses(text: str, schema: dict[str, Any], trusted: Collection[str]) -> ParseResult:
    """Accept only data that was read without repairs, or with trusted repairs.

    A trailing comma is harmless. But `{"name": Ada}` may contain a string without quotes or the
    name of a variable. A program that pays bills should request another reply in this case.

    Args:
        text: A model's text.
        schema: The JSON Schema of the value.
        trusted: Names of repairs, such as "trailing_comma".

    Returns:
        The controller's result. If it is successful but has repairs that are not trusted, return a
        failure instead: without data, and with one issue. The issue has the path "", the rule
        "repair", and a message with the names of these repairs.
    """
    raise NotImplementedError


def fields_as_they_come(pieces: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield each field of the object in a stream once, as soon as it is complete.

    A form that is filled in while the model writes shows a field when its value is final. Hint: a
    field that may still grow is listed in `open`.

    Args:
        pieces: The pieces of a reply, in order.

    Yields:
        Name and value, in the order of the text; never an incomplete value.
    """
    raise NotImplementedError


async def ask_with_hints(
    chat: Any, question: str, schema: dict[str, Any], hints: Sequence[str]
) -> ParseResult:
    """Request data, and add one more hint after each invalid reply.

    Send the question as one user message. After the n-th invalid reply, append two messages: the
    reply as an assistant message, and a user message with the feedback, a line break, and the n-th
    hint. When all hints are used, send no further request. A reply with the finish reason "length"
    is truncated: `parse_and_validate(…, truncated=True)` makes it invalid.

    Args:
        chat: Accepts a list of messages; returns a reply with `content` and `finish_reason`.
        question: The question.
        schema: The JSON Schema of the data.
        hints: The hints, from a small one to the complete solution.

    Returns:
        The result of the last reply, with the number of `attempts`.
    """
    raise NotImplementedError


def test_without_guesses():
    """Untrusted repairs become an issue; other failures are returned unchanged."""
    ada, trusted = {"name": "Ada", "age": 36}, ("trailing_comma", "single_quotes")
    assert without_guesses('{"name": "Ada", "age": 36}', PERSON, ()).data == ada
    assert without_guesses("{'name': 'Ada', \"age\": 36,}", PERSON, trusted).data == ada

    guessed = without_guesses('{"name": Ada, age: 36,}', PERSON, trusted)
    assert (guessed.success, guessed.data) == (False, None)
    assert [(issue.path, issue.rule) for issue in guessed.errors] == [("", "repair")]
    message = feedback(guessed)
    assert "unquoted_text" in message
    assert "unquoted_key" in message
    assert "trailing_comma" not in message

    wrong = without_guesses('{"name": Ada, "age": "36"}', PERSON, ())
    assert [(issue.path, issue.rule) for issue in wrong.errors] == [("/age", "type")]
    assert without_guesses("Ada!", PERSON, ()).errors[0].rule == "json"


def test_fields_as_they_come():
    """A field is yielded when its end has arrived, for every size of the pieces."""
    text = 'So: {"name": "Ada \\u2764", "ships": [{"n": 1}, {}], "age": 36, "note": "a, b"} Done.'
    fields = [("name", "Ada ❤"), ("ships", [{"n": 1}, {}]), ("age", 36), ("note", "a, b")]
    for size in (1, 7, 1000):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert [*fields_as_they_come(pieces)] == fields

    read: list[str] = []

    def letters() -> Iterator[str]:
        for letter in text:
            read.append(letter)
            yield letter

    text_at = {name: "".join(read) for name, _ in fields_as_they_come(letters())}
    assert text_at["name"] == 'So: {"name": "Ada \\u2764"'
    assert text_at["ships"].endswith('"ships": [{"n": 1}, {}]')
    assert text_at["age"].endswith('"age": 36,')  # without the comma, it may become 360

    cut_off = text[: text.index("}") + 3]  # inside the array "ships"
    assert [*fields_as_they_come([cut_off])] == fields[:1]
    assert [*fields_as_they_come(["I would rather ", "not say."])] == []


def test_ask_with_hints():
    """Each hint follows its feedback; without further hints, the last result is returned."""
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

    cut = ChatResponse(Message.assistant('{"name": "Ada", "age": 3}'), finish_reason="length")
    result, model = asyncio.run(ask([cut, '{"name": "Ada", "age": 36}']))
    assert (result.data, result.attempts) == ({"name": "Ada", "age": 36}, 2)

    result, model = asyncio.run(ask([bad, bad, bad]))
    assert (result.success, result.attempts, len(model.requests)) == (False, 3, 3)
