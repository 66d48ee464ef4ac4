"""`OutputController`: convert a model's text to validated data, or to a list of issues.

The model is not trusted: its text is searched for JSON, every candidate is checked against the
schema, and invalid output is answered with feedback and never used. The controller knows no
gateway. `request` works with any async `chat` that accepts messages as mappings and returns a text,
or an object with `.content` and `.finish_reason`.
"""

import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from stage2_output.errors import ExtractionError, InvalidSchema
from stage2_output.extract import doubts, extract_json, find_json, missing_json_message
from stage2_output.extraction.lookaround import is_answer_position
from stage2_output.request import (
    Chat,
    ChatObject,
    SchemaChat,
    add_usage,
    correction,
    is_truncated,
    messages_with_schema,
    refusal,
)
from stage2_output.result import Extraction, InvalidJson, Issue, ParseResult
from stage2_output.schema import CompiledSchema, OutputSchema
from stage2_output.validation.patterns import time_limit

MOST_SCHEMAS = 1000
"""Maximum number of compiled schemas in the cache, for programs that create many schemas."""

_INCOMPLETE = {
    "missing_closer": "a closing bracket is missing",
    "missing_quote": "a closing quote is missing",
    "ellipsis": "a part was left out",
}


class OutputController:
    """Parses and validates models' replies. Its only state is a cache of compiled schemas."""

    def __init__(self) -> None:
        self._schemas: dict[Hashable, OutputSchema] = {}

    def parse_and_validate(
        self, text: str, schema: Any = None, *, truncated: bool = False, coerce: bool = False
    ) -> ParseResult:
        """Find the JSON in a text and validate it.

        With a schema, every candidate is checked and the last valid one is returned, since models
        write drafts and examples first. Candidates in thinking count only if there is no JSON
        outside, so a draft never replaces an answer that is invalid. Without a schema,
        `extract_json` chooses. Incomplete JSON is an error.

        Args:
            text: A model's text.
            schema: A JSON Schema (a mapping or a bool; a `CompiledSchema` saves a cache lookup), a
                pydantic model or another type that pydantic supports, or None for any JSON.
            truncated: Whether the model was cut off, so that its text is incomplete.
            coerce: Whether to convert types where this is exact, such as "5" to an integer.
                `ParseResult.coerced` lists the changes.

        Raises:
            InvalidSchema: The schema is invalid, which is the developer's error.
        """
        output_schema = schema if isinstance(schema, CompiledSchema) else self.compile(schema)
        if truncated:
            return _truncated(text)
        if schema is None:
            return _without_schema(text)
        found, invalid = find_json(text)
        answers = [candidate for candidate in found if candidate.source != "thinking"]
        if answers or any(candidate.source != "thinking" for candidate in invalid):
            found = answers
        if not found:
            return _failure(text, "json", missing_json_message(text, invalid))
        if len(found) == 1 and not invalid:
            return _validated(text, found[0], output_schema, coerce)
        with time_limit():
            result = _best_result(text, found, output_schema, coerce)
        candidates: list[InvalidJson | Extraction] = [*invalid, *found]
        for candidate in candidates:
            if _may_be_answer(candidate, result, text):
                if isinstance(candidate, InvalidJson):
                    return _failure(text, "json", str(candidate))
                return _incomplete(text, candidate)
        return result

    async def request(
        self,
        chat: Chat | ChatObject,
        messages: Iterable[Any],
        schema: Any,
        *,
        max_attempts: int = 3,
        coerce: bool = False,
    ) -> ParseResult:
        """Request data from a model, and repeat the request with feedback until it is valid.

        The system message contains the schema. A refusal ends the attempts, because the model would
        refuse again. The request is repeated without a schema if the server rejects the schema;
        this does not count as an attempt.

        Args:
            chat: A `Gateway`, or an async function. The function accepts messages as mappings and
                returns a text, or a reply with `content` and `finish_reason`. If the gateway's
                server supports it, an object schema is also passed as `response_schema`.
            messages: The conversation that requests the data: mappings, or objects with `to_dict()`
                such as `Message`. A text is one user message.
            schema: The schema of the data, as for `parse_and_validate`.
            max_attempts: Maximum number of replies, at least 1.
            coerce: As for `parse_and_validate`.

        Returns:
            The result of the last reply, with `attempts`, and with `usage` if the chat reports it.

        Raises:
            InvalidSchema: The schema is invalid, or cannot be written as JSON.
            TypeError: A message has another type, or `chat` is not async or returns another value.
            ValueError: `max_attempts` is below 1.
        """
        if not (isinstance(max_attempts, int) and max_attempts >= 1):
            raise ValueError(f"max_attempts must be at least 1, not {max_attempts!r}.")
        json_schema = self.compile(schema).schema
        conversation = messages_with_schema(messages, json_schema)
        model, usage = SchemaChat(chat, json_schema), None
        for attempt in range(1, max_attempts + 1):
            reply = await model.reply(conversation)
            usage = add_usage(usage, reply.usage)
            refused = refusal(reply)
            result = refused or self.parse_and_validate(
                reply.content, schema, truncated=is_truncated(reply), coerce=coerce
            )
            result = replace(result, attempts=attempt, usage=usage)
            if result.success or refused:
                break
            # A new list, because the chat may store the one that was sent.
            conversation = [*conversation, *correction(result)]
        return result

    def compile(self, schema: Any) -> OutputSchema:
        """Compile a schema once; the `schema` of the result is the JSON Schema.

        Args:
            schema: The schema or the type, as for `parse_and_validate`.

        Raises:
            InvalidSchema: The schema is invalid.
        """
        if isinstance(schema, CompiledSchema):
            return schema
        key = _cache_key(schema)
        if key is None:
            return _compile(schema)
        if key not in self._schemas:
            if len(self._schemas) >= MOST_SCHEMAS:
                self._schemas.clear()
            self._schemas[key] = _compile(schema)
        return self._schemas[key]


def _cache_key(schema: Any) -> Hashable:
    """Return the JSON text of a schema, or the type; None for a type that is not hashable."""
    if not isinstance(schema, Mapping):
        try:
            hash(schema)
        except TypeError:  # such as Annotated[int, [...]]
            return None
        return type(schema), schema
    try:
        return json.dumps(schema, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSchema(f"The JSON Schema cannot be written as JSON: {error}.") from error


def _compile(schema: Any) -> OutputSchema:
    if schema is None or isinstance(schema, Mapping | bool):
        return CompiledSchema(True if schema is None else schema)
    from stage2_output.types.typed_schema import TypedSchema

    return TypedSchema(schema)  # rejects values that are not types


def _best_result(
    text: str, found: list[Extraction], schema: OutputSchema, coerce: bool
) -> ParseResult:
    """Return the last valid candidate with the fewest doubts, else issues of the last object."""
    rejected: set[str] = set()  # so that equal candidates are checked once
    for candidate in sorted(found, key=lambda item: (doubts(item, text), -item.start)):
        content = text[candidate.start : candidate.end]
        if not candidate.complete or content in rejected:
            continue
        value = _coerced(candidate.value, schema)[0] if coerce else candidate.value
        if schema.fits(value):  # listing the issues of thousands of candidates would take seconds
            result = _validated(text, candidate, schema, coerce)
            if result.success:
                return result
        rejected.add(content)
    last = max(found, key=lambda item: (isinstance(item.value, dict), item.start))
    return _validated(text, last, schema, coerce)


def _validated(text: str, found: Extraction, schema: OutputSchema, coerce: bool) -> ParseResult:
    if not found.complete:
        return _incomplete(text, found)
    value, changes = _coerced(found.value, schema) if coerce else (found.value, ())
    data, issues = schema.load(value, coerce=coerce)
    return ParseResult(not issues, None if issues else data, issues, text, found, changes)


def _coerced(value: Any, schema: OutputSchema) -> tuple[Any, tuple[str, ...]]:
    """Return a value with its types converted if it does not fit, and the changes."""
    if schema.fits(value):
        return value, ()
    from stage2_output.types.coercion import coerce_types

    return coerce_types(value, schema)


def _may_be_answer(candidate: InvalidJson | Extraction, result: ParseResult, text: str) -> bool:
    """Whether a candidate behind the chosen one may be the answer and is invalid or incomplete."""
    best = result.extraction
    assert best is not None
    is_thought = candidate.source == "thinking" and best.source != "thinking"
    if candidate.start <= best.start or is_thought:
        return False
    if isinstance(candidate, Extraction):
        if candidate.complete:
            return False
        if candidate.end >= len(text.rstrip()):
            return True
    if not result.success or candidate.source in ("fenced", "tagged"):
        return True
    return is_answer_position(text, candidate.start)  # elsewhere it may be a mention


def _without_schema(text: str) -> ParseResult:
    try:
        found = extract_json(text)
    except ExtractionError as error:
        return _failure(text, "json", str(error))
    if not found.complete:
        return _incomplete(text, found)
    return ParseResult(True, found.value, (), text, found)


def _truncated(text: str) -> ParseResult:
    try:
        found = extract_json(text, truncated=True)
    except ExtractionError:
        found = None
    return _failure(text, "complete", "The reply was cut off. Write a shorter one.", found)


def _incomplete(text: str, found: Extraction) -> ParseResult:
    repair = next(repair for repair in found.repairs if repair.name in _INCOMPLETE)
    message = (
        f"The JSON that begins at character {found.start} is not complete:"
        f" {_INCOMPLETE[repair.name]} at character {repair.position}."
    )
    return _failure(text, "complete", message, found)


def _failure(text: str, rule: str, message: str, found: Extraction | None = None) -> ParseResult:
    return ParseResult(False, None, (Issue("", message, rule),), text, found)
