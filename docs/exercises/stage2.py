"""Stage 2: three exercises. Each function waits for you, and has a test below.

    .venv/bin/python -m pytest docs/exercises/stage2.py

All three tests fail with NotImplementedError until you write the functions; do them one after the
other (`-k without_guesses` runs only the first). You need nothing but the face of `stage2_output`.
If you are stuck, look at what `ParseResult` and `Extraction` carry besides the value.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from stage0_gateway import Gateway, ScriptedModel
from stage2_output import ParseResult, feedback

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}


def without_guesses(text: str, schema: dict[str, Any], trusted: Collection[str]) -> ParseResult:
    """Accept only data that was read without repairs, or with repairs that you trust.

    A comma too many is nothing. But is `{"name": Ada}` a string that lost its quotes, or the name
    of something? Somebody who pays bills may rather ask again.

    Args:
        text: Anything a model wrote.
        schema: What the value must be.
        trusted: Names of repairs, such as "trailing_comma".

    Returns:
        The controller's result. If it is a success with a repair that is not trusted, it is a
        success no more: no data, and one issue of the whole value, with the rule "repair", whose
        message names these repairs.
    """
    raise NotImplementedError


def fields_as_they_come(pieces: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Tell each field of the object in a stream once, as soon as it is whole.

    A page that is filled in while the model writes shows a field when it is sure of it. Hint: a
    field that still grows is not closed.

    Args:
        pieces: A reply, piece by piece.

    Yields:
        Name and value, in the order of the text; never a value that still grows.
    """
    raise NotImplementedError


async def ask_with_hints(
    chat: Any, question: str, schema: dict[str, Any], hints: Sequence[str]
) -> ParseResult:
    """Ask for data, and help a little more after each bad reply.

    Send the question as one user message. After the n-th bad reply append it as an assistant
    message, and a user message: the feedback, a line break, and the n-th hint. When the hints are
    used up, ask no more. A reply that was cut off is a bad reply.

    Args:
        chat: Takes a list of messages; returns a reply with `content` and `finish_reason`.
        question: What to ask.
        schema: What the data must be.
        hints: From a nudge to the whole solution.

    Returns:
        The result of the last reply, with the number of `attempts`.
    """
    raise NotImplementedError


def test_without_guesses():
    """What was mended is trusted by its name; what is wrong anyway stays as the controller says
    it."""
    ada, trusted = {"name": "Ada", "age": 36}, ("trailing_comma", "single_quotes")
    assert without_guesses('{"name": "Ada", "age": 36}', PERSON, ()).data == ada
    assert without_guesses("{'name': 'Ada', \"age\": 36,}", PERSON, trusted).data == ada

    guessed = without_guesses('{"name": Ada, age: 36,}', PERSON, trusted)
    assert (guessed.success, guessed.data) == (False, None)
    assert [(issue.path, issue.rule) for issue in guessed.errors] == [("", "repair")]
    told = feedback(guessed)
    assert "unquoted_text" in told
    assert "unquoted_key" in told
    assert "trailing_comma" not in told

    wrong = without_guesses('{"name": Ada, "age": "36"}', PERSON, ())
    assert [(issue.path, issue.rule) for issue in wrong.errors] == [("/age", "type")]
    assert without_guesses("Ada!", PERSON, ()).errors[0].rule == "json"


def test_fields_as_they_come():
    """However the text is cut, a field comes when its end has been read, and what is never closed
    never comes."""
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

    came = {name: "".join(read) for name, _ in fields_as_they_come(letters())}
    assert came["name"] == 'So: {"name": "Ada \\u2764"'
    assert came["ships"].endswith('"ships": [{"n": 1}, {}]')
    assert came["age"].endswith('"age": 36,')  # it could have become 360

    cut_off = text[: text.index("}") + 3]  # in the middle of the ships
    assert [*fields_as_they_come([cut_off])] == fields[:1]
    assert [*fields_as_they_come(["I would rather ", "not say."])] == []


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
