"""`OutputController`: from raw text to data that can be trusted, or a clear list of what is wrong.

The model is an untrusted node: its text is searched for JSON, every candidate is held to the
schema, and what does not fit is answered with feedback, never used. Knows no gateway: `request`
works with any `chat` that takes messages as mappings and returns something with `.content` and
`.finish_reason`.
"""

import json
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Protocol

from stage2_output.errors import ExtractionError, InvalidSchema
from stage2_output.extract import doubts, extract_json, find_json, why_nothing_found
from stage2_output.extraction.candidates import Broken, Extraction
from stage2_output.extraction.lookaround import stands_as_answer
from stage2_output.request import Chat, ask
from stage2_output.result import ParseResult
from stage2_output.schema import CompiledSchema
from stage2_output.validation.issues import Issue
from stage2_output.validation.patterns import time_limit

MOST_SCHEMAS = 1000
"""Compiled schemas that are kept; a program that makes a new one for each question must not grow
for ever."""

_GAPS = {
    "missing_closer": "a closing bracket is missing",
    "missing_quote": "a closing quote is missing",
    "wrong_closer": "a bracket of the other kind stands",
    "ellipsis": "something was left out",
}


class OutputController:
    """Reads models' replies. Keeps compiled schemas, and nothing else, between calls."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Schema] = {}

    def parse_and_validate(
        self, text: str, schema: Any = None, *, truncated: bool = False, coerce: bool = False
    ) -> ParseResult:
        """Find the JSON in a text and hold it to a schema.

        With a schema every candidate is checked and the last valid one counts, outside thinking
        tags before
        inside: models write drafts and examples first. A draft does not stand in for an answer
            behind it that
        is broken. Without a schema it is `extract_json`'s choice. What is not complete is an error.

        Args:
            text: Anything a model wrote.
            schema: A JSON Schema (a mapping or a bool; a `CompiledSchema` saves the time to
                recognize it), a pydantic model or another type that pydantic takes, or None to take
                any JSON.
            truncated: The model was cut off, so that whatever it wrote is incomplete.
            coerce: Put types right where that is exact, such as "5" where an integer is wanted;
                `ParseResult.coerced` names what was changed.

        Raises:
            InvalidSchema: The schema is none; the developer's error, not the model's.
        """
        judge = self._schema(schema)
        if truncated:
            return _cut_off(text)
        if schema is None:
            return _without_schema(text)
        found, broken = find_json(text)
        if not found:
            return _unusable(text, "json", why_nothing_found(text, broken))
        with time_limit():
            result = _best(text, found, judge, coerce)
        assert result.extraction is not None
        pieces: list[Broken | Extraction] = [*broken, *found]
        worst = next((each for each in pieces if _hides_an_answer(each, result, text)), None)
        if worst is None:
            return result
        return (
            _unusable(text, "json", str(worst))
            if isinstance(worst, Broken)
            else _incomplete(text, worst)
        )

    async def request(
        self,
        chat: Chat,
        messages: Iterable[Mapping[str, Any]],
        schema: Any,
        *,
        max_attempts: int = 3,
        coerce: bool = False,
    ) -> ParseResult:
        """Ask a model for data; tell it what is wrong and ask again, until it fits or the attempts
        are used up.

        Args:
            chat: Takes messages as mappings, returns a reply with `content` and `finish_reason`;
                `Gateway.chat` is one. Where its object says `supports_schema`, the server is asked
                for the schema, too.
            messages: The conversation that asks for the data.
            schema: What the data must be, as for `parse_and_validate`; it is told to the model.
            max_attempts: The most replies to ask for; at least 1.
            coerce: As for `parse_and_validate`.

        Returns:
            What became of the last reply; with `attempts`, and `usage` where the chat tells it.

        Raises:
            InvalidSchema: The schema is none.
            ValueError: `max_attempts` is below 1.
        """

        def read(text: str, cut: bool) -> ParseResult:
            return self.parse_and_validate(text, schema, truncated=cut, coerce=coerce)

        described = self._schema(schema).schema
        return await ask(read, chat, messages, described, max_attempts=max_attempts)

    def _schema(self, schema: Any) -> "_Schema":
        if isinstance(schema, CompiledSchema):
            return schema
        key = _key(schema)
        if key is None:
            return _compile(schema)
        if key not in self._kept:
            if len(self._kept) >= MOST_SCHEMAS:
                self._kept.clear()
            self._kept[key] = _compile(schema)
        return self._kept[key]


class _Schema(Protocol):
    """A JSON Schema, or a type: both are asked in the same way."""

    @property
    def schema(self) -> Any:
        """The JSON Schema."""

    def fits(self, value: Any) -> bool:
        """Whether a value fits the JSON Schema; `load` takes longer and may find more that is
        wrong.
        """

    def load(self, value: Any, *, coerce: bool = False) -> tuple[Any, tuple[Issue, ...]]:
        """The data that a value stands for, and everything that is wrong with it."""


def _key(schema: Any) -> Hashable:
    """What a schema is kept under: its text, or the type itself; None for a type that cannot be a
    key.
    """
    if schema is None or not isinstance(schema, Mapping):
        return (type(schema), schema) if isinstance(schema, Hashable) else None
    try:
        return json.dumps(schema, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSchema(f"The JSON Schema cannot be written as JSON: {error}.") from error


def _compile(schema: Any) -> _Schema:
    if schema is None or isinstance(schema, Mapping | bool):
        return CompiledSchema(True if schema is None else schema)
    from stage2_output.types.typed_schema import TypedSchema

    return TypedSchema(schema)  # which refuses what is no type either


def _best(text: str, found: list[Extraction], judge: _Schema, coerce: bool) -> ParseResult:
    """The last of the least doubtful candidates that fits; otherwise what is wrong with the last
    object.
    """
    several = found if len(found) > 1 else []  # a single one is checked once, below
    unfit: set[str] = (
        set()
    )  # texts of candidates, so that the same one is not checked thousands of times
    for each in sorted(several, key=lambda each: (doubts(each, text), -each.start)):
        written = text[each.start : each.end]
        if not each.complete or written in unfit:
            continue
        # To find what is wrong takes far longer than to find that something is: with thousands of
        # candidates, seconds.
        fits = judge.fits(_put_right(each.value, judge, coerce)[0])
        if fits and (result := _judged(text, each, judge, coerce)).success:
            return result
        unfit.add(written)
    blamed = max(
        found,
        key=lambda each: (each.source != "thinking", isinstance(each.value, dict), each.start),
    )
    return _judged(text, blamed, judge, coerce)


def _judged(text: str, found: Extraction, judge: _Schema, coerce: bool) -> ParseResult:
    if not found.complete:
        return _incomplete(text, found)
    value, changes = _put_right(found.value, judge, coerce)
    data, issues = judge.load(value, coerce=coerce)
    return ParseResult(not issues, None if issues else data, issues, text, found, changes)


def _put_right(value: Any, judge: _Schema, coerce: bool) -> tuple[Any, tuple[str, ...]]:
    """A value, coerced if asked for and necessary, and what was changed."""
    if not coerce or judge.fits(value):
        return value, ()
    from stage2_output.types.coercion import coerce as put_right

    return put_right(value, judge.schema)


def _hides_an_answer(piece: Broken | Extraction, result: ParseResult, text: str) -> bool:
    """Whether behind what was picked there stands an answer that could not be read, or not to its
    end.
    """
    best = result.extraction
    assert best is not None
    if piece.start <= best.start or (piece.source == "thinking" and best.source != "thinking"):
        return False
    if isinstance(piece, Extraction) and (piece.complete or piece.end >= len(text.rstrip())):
        return not piece.complete
    if not result.success or piece.source in ("fenced", "tagged"):
        return True
    return stands_as_answer(text, piece.start)  # else it may be mentioned only


def _without_schema(text: str) -> ParseResult:
    try:
        only = extract_json(text)
    except ExtractionError as error:
        return _unusable(text, "json", str(error))
    return (
        ParseResult(True, only.value, (), text, only) if only.complete else _incomplete(text, only)
    )


def _cut_off(text: str) -> ParseResult:
    try:
        found = extract_json(text, truncated=True)
    except ExtractionError:
        found = None
    return _unusable(text, "complete", "The reply was cut off. Write a shorter one.", found)


def _incomplete(text: str, found: Extraction) -> ParseResult:
    where, what = next(
        (each.position, _GAPS[each.name]) for each in found.repairs if each.name in _GAPS
    )
    why = f"The JSON that begins at character {found.start} is not complete: {what} at character {where}."
    return _unusable(text, "complete", why, found)


def _unusable(text: str, rule: str, why: str, found: Extraction | None = None) -> ParseResult:
    return ParseResult(False, None, (Issue("", why, rule),), text, found)
