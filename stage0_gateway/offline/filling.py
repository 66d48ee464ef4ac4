"""Arguments for a tool, filled from a question by the tool's JSON Schema.

Each parameter takes the piece of the question that fits its type and its words; a required one that finds
nothing takes the schema's own `const`, `default` or first example, and otherwise is missing. Nothing is
invented, with one exception that is asked for by `complete`. Covered: objects, arrays, enums, anyOf/oneOf,
allOf, local $ref; not covered: pattern, not, if/then. Hostile schemas cost bounded time. Used by
`planning.py`, and by `teacher.py` for replies by schema.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from stage0_gateway.offline.names import is_name_like
from stage0_gateway.offline.numbers import bool_for, fits_range, hinted_numbers
from stage0_gateway.offline.pieces import Piece, Sheet
from stage0_gateway.offline.schema import (
    NOTHING,
    as_list,
    as_mapping,
    as_text,
    blank,
    given,
    kind_of,
    member_named,
    resolve,
)
from stage0_gateway.offline.strings import find_text
from stage0_gateway.offline.wanted import Wanted, wanted

_LIST_GAP = re.compile(r"(?i)(?:[\s,?.;/&、，和与跟]|还有|\b(?:and|or|vs|versus|with|in|for|at|of)\b){1,12}")
_DEPTH = 6
_WIDTH = 64
_ORDER = {"number": 1, "integer": 1, "boolean": 2, "string": 3, "array": 4, "object": 5}
_OTHER_KINDS = {"type", "items", "enum", "const", "anyOf", "oneOf"}


@dataclass(frozen=True, slots=True)
class Filled:
    """Arguments, and the required parameters that found no value, by name."""

    arguments: dict[str, Any]
    missing: tuple[str, ...] = ()


def fill(schema: Any, text: str, subject: frozenset[str] = frozenset()) -> Filled:
    """Fill an object from a text.

    Args:
        schema: A JSON Schema of an object; anything else counts as one without properties.
        text: The question.
        subject: The words of the tool's name.
    """
    return _Filling(schema, Sheet(text), subject).object(schema, 0)


def fill_each(schema: Any, text: str, subject: frozenset[str] = frozenset()) -> list[Filled]:
    """Like `fill`, once for each name of a list ("Beijing and Shanghai") that one parameter can take."""
    filling = _Filling(schema, Sheet(text), subject)
    first = filling.object(schema, 0)
    names = [name for name, value in first.arguments.items() if isinstance(value, str)]
    for piece in filling.sheet.pieces:
        for name in names:
            wants = filling.wants.get(name)
            if wants and is_name_like(wants) and piece.text == first.arguments[name]:
                listed = () if first.missing else _listed_after(piece, filling.sheet)
                return [first, *(Filled(first.arguments | {name: one.text}) for one in listed)]
    return [first]


def complete(schema: Any, filled: Filled) -> dict[str, Any]:
    """Put a value that says nothing where one is missing: a reply must have every required field."""
    properties = as_mapping(resolve(schema, schema).get("properties"))
    every = filled.arguments | {name: blank(schema, properties.get(name)) for name in filled.missing}
    return {name: every[name] for name in (*properties, *filled.missing) if name in every}


def fill_reply(schema: Any, text: str) -> Any:
    """A whole reply by a schema, of an object or of anything else: what the text does not say is blank."""
    root = resolve(schema, schema)
    if kind_of(root) == "object" or not _OTHER_KINDS & root.keys():
        return complete(schema, fill(schema, text))
    found = _Filling(schema, Sheet(text), frozenset())._value(wanted("value", "", True), root, 0)
    return blank(schema, root) if found is NOTHING else found


class _Filling:
    """One text and one schema; remembers which parameters it looked for."""

    def __init__(self, root: Any, sheet: Sheet, subject: frozenset[str]) -> None:
        self.sheet = sheet
        self.wants: dict[str, Wanted] = {}
        self._root = root
        self._subject = subject
        self._visits = 0
        self._hints: Mapping[str, Piece] = {}

    def object(self, schema: Any, depth: int) -> Filled:
        schema = resolve(self._root, schema)
        properties = dict(list(as_mapping(schema.get("properties")).items())[:_WIDTH])
        required = [name for name in as_list(schema.get("required"))[:_WIDTH] if isinstance(name, str)]
        plans = {name: (resolve(self._root, sub), name in required) for name, sub in properties.items()}
        wants = {n: wanted(n, as_text(sub.get("description")), need) for n, (sub, need) in plans.items()}
        self.wants = self.wants or wants
        numeric = [want for name, want in wants.items() if kind_of(plans[name][0]) in ("integer", "number")]
        outer, self._hints = self._hints, hinted_numbers(numeric, self.sheet)
        found = {}
        for name in sorted(plans, key=lambda name: (not plans[name][1], _rank(plans[name][0]))):
            value = self._value(wants[name], plans[name][0], depth + 1)
            if value is not NOTHING:
                found[name] = value
        self._hints = outer
        ordered = {name: found[name] for name in properties if name in found}
        return Filled(ordered, tuple(name for name in required if name not in found))

    def _value(self, want: Wanted, schema: Mapping[str, Any], depth: int) -> Any:
        self._visits += 1
        if depth > _DEPTH or self._visits > 500:
            return NOTHING
        value = NOTHING if "const" in schema else self._found(want, schema, depth)
        return given(schema) if value is NOTHING and want.required else value

    def _found(self, want: Wanted, schema: Mapping[str, Any], depth: int) -> Any:
        if members := as_list(schema.get("enum")):
            return member_named(members, self.sheet.text)
        for branch in [*as_list(schema.get("anyOf")), *as_list(schema.get("oneOf"))][:8]:
            value = self._value(want, resolve(self._root, branch), depth + 1)
            if value is not NOTHING and value is not None:
                return value
        match kind_of(schema):
            case "number" | "integer" as kind:
                return self._number(want, schema, kind == "integer")
            case "boolean":
                return _or_nothing(bool_for(want, self.sheet.text))
            case "array":
                return self._array(want, schema, depth)
            case "object":
                filled = self.object(schema, depth)
                usable = not filled.missing and (filled.arguments or want.required)
                return filled.arguments if usable else NOTHING
            case "string":
                return _or_nothing(find_text(want, as_text(schema.get("format")), self.sheet, self._subject))
        return NOTHING

    def _number(self, want: Wanted, schema: Mapping[str, Any], whole: bool) -> Any:
        hint = self._hints.get(want.name)
        reserved = {piece.start for name, piece in self._hints.items() if name != want.name}
        free = [piece for piece in self.sheet.free("number") if piece.start not in reserved]
        for piece in [hint] if hint else free if want.required else []:
            if fits_range(piece.number, schema, whole):
                return self.sheet.use(piece).number
        return NOTHING

    def _array(self, want: Wanted, schema: Mapping[str, Any], depth: int) -> Any:
        items = resolve(self._root, schema.get("items"))
        if members := as_list(items.get("enum")):
            return [one for one in members if member_named([one], self.sheet.text) is not NOTHING] or NOTHING
        if kind_of(items) in ("number", "integer"):
            whole = kind_of(items) == "integer"
            pieces = [p for p in self.sheet.free("number") if fits_range(p.number, items, whole)]
            return [self.sheet.use(piece).number for piece in pieces] or NOTHING
        if kind_of(items) == "string" and "format" not in items:
            pieces = self.sheet.free("quoted") or self.sheet.free("name") or self.sheet.free("weak_name")
            if pieces and (want.required or pieces[0].kind == "quoted"):
                return [self.sheet.use(piece).text for piece in pieces]
        value = self._value(want, items, depth + 1) if want.required else NOTHING
        return NOTHING if value is NOTHING else [value]


def _listed_after(piece: Piece, sheet: Sheet) -> list[Piece]:
    """The unused names that follow this piece in one list."""
    names = [one for one in sheet.pieces if one.kind in ("name", "weak_name") and one.start >= piece.start]
    free = {one.start for one in sheet.free("name", "weak_name")}
    listed: list[Piece] = []
    for last, one in pairwise(names):
        if not _LIST_GAP.fullmatch(sheet.text[last.end : one.start]) or one.start not in free:
            break
        listed.append(one)
    # "Paris, France" is one place; "Paris, Rome and Oslo" are three.
    pair = len(listed) == 1 and sheet.text[piece.end : listed[0].start].strip() == ","
    return [] if pair else listed


def _rank(schema: Mapping[str, Any]) -> int:
    return 0 if "enum" in schema or "const" in schema else _ORDER.get(kind_of(schema), 6)


def _or_nothing(value: Any) -> Any:
    return NOTHING if value is None else value
