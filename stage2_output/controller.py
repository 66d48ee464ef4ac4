"""`OutputController`: from raw text to data that can be trusted, or a clear list of what is wrong.

The model is an untrusted node: its text is searched for JSON, every candidate is held to the schema, and
what does not fit is answered with feedback, never used. Knows no gateway: `request` works with any `chat`
that takes messages as mappings and returns something with `.content` and `.finish_reason`.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from stage2_output.errors import ExtractionError, InvalidSchema
from stage2_output.extract import Extraction, extract_json, find_json, why_nothing_found
from stage2_output.feedback import feedback
from stage2_output.issues import Issue
from stage2_output.result import ParseResult
from stage2_output.schema import CompiledSchema, Schema

MOST_SCHEMAS = 1000
"""Compiled schemas that are kept; a program that makes a new one for each question must not grow for ever."""


class Reply(Protocol):
    """The two things that are read from what `chat` returns."""

    @property
    def content(self) -> str:
        """The text of the reply."""

    @property
    def finish_reason(self) -> str:
        """Why the model stopped; "length" means that it was cut off."""


class OutputController:
    """Reads models' replies. Keeps compiled schemas, and nothing else, between calls."""

    def __init__(self) -> None:
        self._compiled: dict[str, CompiledSchema] = {}

    def parse_and_validate(
        self, text: str, schema: Schema | None = None, *, truncated: bool = False
    ) -> ParseResult:
        """Find the JSON in a text and hold it to a schema.

        With a schema every candidate is checked and the last valid one counts, outside thinking tags before
        inside: models write drafts and examples first. A draft does not stand in for an answer behind it that
        is broken. Without a schema it is `extract_json`'s choice.

        Args:
            text: Anything a model wrote.
            schema: A JSON Schema, or None to take any JSON.
            truncated: The model was cut off, so that whatever it wrote is incomplete. It is an error.

        Raises:
            InvalidSchema: The schema is none; the developer's error, not the model's.
        """
        compiled = self._compile(schema)
        if truncated:
            return _unusable(text, "complete", "The reply was cut off. Write a shorter one.")
        if schema is None:
            try:
                only = extract_json(text)
            except ExtractionError as error:
                return _unusable(text, "json", str(error))
            return ParseResult(True, only.value, (), text, only)
        found, broken = find_json(text)
        if not found:
            return _unusable(text, "json", why_nothing_found(text, broken))
        # Sorting is stable: the last one outside thinking tags comes to stand at the end.
        judged = [(each, compiled.issues(each.value)) for each in sorted(found, key=_was_meant)]
        best, issues = next((pair for pair in reversed(judged) if not pair[1]), judged[-1])
        behind = [each for each in broken if each.start > best.start and text[each.start] == "{"]
        if behind:
            return _unusable(text, "json", why_nothing_found(text, behind))
        return ParseResult(not issues, None if issues else best.value, issues, text, best)

    async def request(
        self,
        chat: Callable[[list[dict[str, Any]]], Awaitable[Reply]],
        messages: Iterable[Mapping[str, Any]],
        schema: Schema,
        *,
        max_attempts: int = 3,
    ) -> ParseResult:
        """Ask a model for data; tell it what is wrong and ask again, until it fits or the attempts are used up.

        Args:
            chat: Takes messages as mappings, returns a `Reply`; `Gateway.chat` is one.
            messages: The conversation that asks for the data.
            schema: What the data must be; it is told to the model.
            max_attempts: The most replies to ask for; at least 1.

        Raises:
            InvalidSchema: The schema is none.
            ValueError: `max_attempts` is below 1.
        """
        if max_attempts < 1:
            raise ValueError(f"max_attempts is {max_attempts}; 1 is the least.")
        self._compile(schema)
        talk = _with_order(messages, schema)
        for attempt in range(1, max_attempts + 1):
            reply = await chat(talk)
            cut, text = reply.finish_reason == "length", reply.content or ""
            result = replace(self.parse_and_validate(text, schema, truncated=cut), attempts=attempt)
            if result.success:
                break
            if text:  # servers refuse an empty message in the history
                talk.append({"role": "assistant", "content": text})
            talk.append({"role": "user", "content": "[Feedback]\n" + feedback(result)})
        return result

    def _compile(self, schema: Schema | None) -> CompiledSchema:
        schema = True if schema is None else schema
        try:
            key = json.dumps(schema, sort_keys=True, default=repr)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidSchema(f"The JSON Schema cannot be written as JSON: {error}.") from error
        if len(self._compiled) >= MOST_SCHEMAS:
            self._compiled.clear()
        if key not in self._compiled:
            self._compiled[key] = CompiledSchema(schema)
        return self._compiled[key]


def _with_order(messages: Iterable[Mapping[str, Any]], schema: Schema) -> list[dict[str, Any]]:
    """The messages with the schema told in the one system message, which comes first."""
    order = "Answer with one JSON value that fits this JSON Schema, and nothing else:\n" + json.dumps(schema)
    talk = [*map(dict, messages)]
    if talk and talk[0].get("role") == "system" and isinstance(talk[0].get("content"), str):
        return [{"role": "system", "content": f"{talk[0]['content']}\n\n{order}"}, *talk[1:]]
    return [{"role": "system", "content": order}, *talk]


def _unusable(text: str, rule: str, why: str) -> ParseResult:
    return ParseResult(False, None, (Issue("", why, rule),), text)


def _was_meant(found: Extraction) -> bool:
    return found.source != "thinking"
