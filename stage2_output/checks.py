"""A JSON Schema compiled to one function that returns whether a value is valid.

    {"type": "string", "minLength": 2}
        ->  lambda value: isinstance(value, str) and len(value) >= 2

The `jsonschema` library takes many times as long, because it also finds out what is wrong. It is asked for that,
and where this function returns None. This module knows neither issues nor the library; `schema.py` uses it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from numbers import Number
from types import NoneType
from typing import Any

from stage2_output.equality import CannotTell
from stage2_output.rules import RULES, Check, anything, every, nothing, some

# Keywords that are left to the library, by draft: those that take more than this to follow, and those that mean
# something else in the draft, or nothing.
_2020 = "https://json-schema.org/draft/2020-12/schema"
_HARD = frozenset({"$dynamicRef", "unevaluatedItems", "unevaluatedProperties"})
_OLDER = _HARD | {
    "$recursiveRef",
    "additionalItems",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "maxContains",
    "minContains",
    "prefixItems",
}
_LEFT_TO_THE_LIBRARY = {
    _2020: _HARD,
    "https://json-schema.org/draft/2019-09/schema": _OLDER,
    "http://json-schema.org/draft-07/schema": _OLDER,
    "http://json-schema.org/draft-06/schema": _OLDER | {"if"},
}
_ONLY_THE_REFERENCE_COUNTS = (
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
)

_Known = dict[tuple[int, str], bool]
_KNOWN: ContextVar[_Known] = ContextVar("_KNOWN")
"""What is known of the value that is being checked: whether a part of it is valid by a part of the schema."""


def compile_check(schema: Any) -> Callable[[Any], bool | None] | None:
    """Compile a function that returns whether a value is valid, or None if only the library can tell.

    Args:
        schema: A JSON Schema that follows the rules of its draft.

    Returns:
        None if something in the schema is left to the library.
    """
    try:
        compiler = _Compiler(schema)
        check = compiler.reference("#")
    except Exception:  # whatever it is, the library has the last word
        return None

    def known(value: Any) -> bool | None:
        try:
            return check(value)
        except Exception:  # nested too deeply, a number too large, no value of JSON: as above
            return None

    return _with_memory(known) if compiler.holds_itself else known


def _with_memory(check: Callable[[Any], bool | None]) -> Callable[[Any], bool | None]:
    def remembering(value: Any) -> bool | None:
        token = _KNOWN.set({})
        try:
            return check(value)
        finally:
            _KNOWN.reset(token)

    return remembering


class _Compiler:
    """Knows the whole schema, so that references in it can be followed.

    Attributes:
        holds_itself: Whether a part of the schema refers to what it stands in, so that memory is needed.
    """

    def __init__(self, root: Any) -> None:
        draft = _draft(root)
        self.holds_itself = False
        self._root = root
        self._hard = _LEFT_TO_THE_LIBRARY[draft]
        self._only_the_reference_counts = draft in _ONLY_THE_REFERENCE_COUNTS
        self._referred: dict[str, Check] = {}
        self._open = set[str]()

    def reference(self, pointer: str) -> Check:
        """The check of what a pointer into the schema leads to; each is made once."""
        if pointer in self._open:
            self.holds_itself = True
            return self._once(pointer)
        if pointer not in self._referred:
            self._open.add(pointer)
            self._referred[pointer] = self.compile(self._at(pointer))
            self._open.remove(pointer)
        return self._referred[pointer]

    def _once(self, pointer: str) -> Check:
        """A check that looks up the real one when asked, and asks it once about each object and array.

        Where several alternatives lead here, each level of a value would else take twice as long as the last.
        """

        def check(value: Any) -> bool:
            if not isinstance(value, dict | list):
                return self._referred[pointer](value)
            known, key = _KNOWN.get(), (id(value), pointer)
            if key not in known:
                known[key] = self._referred[pointer](value)
            return known[key]

        return check

    def compile(self, schema: Any) -> Check:
        """The check of a schema within the whole."""
        if isinstance(schema, bool):
            return anything if schema else nothing
        if self._hard & schema.keys():
            raise CannotTell(schema)
        referred = self.reference(schema["$ref"]) if "$ref" in schema else anything
        if "$ref" in schema and self._only_the_reference_counts:
            return referred
        about = {
            kind: every(
                rule(schema[name], schema, self.compile) for name, rule in rules.items() if name in schema
            )
            for kind, rules in RULES.items()
        }
        return every([_typed(schema.get("type"), about), about["any"], referred])

    def _at(self, pointer: str) -> Any:
        """The part of the schema a pointer leads to."""
        start, *steps = pointer.split("/")
        if start != "#" or "%" in pointer:
            raise CannotTell(pointer)
        part = self._root
        for step in steps:
            name = step.replace("~1", "/").replace("~0", "~")
            part = part[int(name) if isinstance(part, list) else name]
        return part


def _is_integer(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool)
    return isinstance(value, float) and value.is_integer()


def _is_number(value: Any) -> bool:
    return isinstance(value, Number) and not isinstance(value, bool)


# For each type the class that most of its values have, and the whole truth. A tuple is no array and no other
# mapping than a dict is an object: the library has it so.
_TYPES: dict[str, tuple[type, Check]] = {
    "null": (NoneType, lambda value: value is None),
    "boolean": (bool, lambda value: isinstance(value, bool)),
    "integer": (int, _is_integer),
    "number": (float, _is_number),
    "string": (str, lambda value: isinstance(value, str)),
    "array": (list, lambda value: isinstance(value, list)),
    "object": (dict, lambda value: isinstance(value, dict)),
}


def _typed(types: str | list[str] | None, about: Mapping[str, Check]) -> Check:
    """What is asked of a value because of its type."""
    if isinstance(types, str):  # then rules about any other type do not matter
        return _is_and(types, about.get("number" if types == "integer" else types, anything))
    rules = [_if_it_is(kind, check) for kind, check in about.items() if kind in _TYPES]
    return every([anything if types is None else some(_is_and(name, anything) for name in types), *rules])


def _is_and(kind: str, check: Check) -> Check:
    usual, is_kind = _TYPES[kind]
    if check is anything:
        return lambda value: type(value) is usual or is_kind(value)
    return lambda value: (type(value) is usual or is_kind(value)) and check(value)


def _if_it_is(kind: str, check: Check) -> Check:
    _, is_kind = _TYPES[kind]
    return anything if check is anything else lambda value: not is_kind(value) or check(value)


def _draft(root: Any) -> str:
    """The draft of a schema.

    Raises:
        CannotTell: It is not one of ours, or a part of it is in another, or has a name of its own.
    """
    for part in _parts(root):
        if part is not root and any(isinstance(part.get(name), str) for name in ("$id", "$schema")):
            raise CannotTell(part)
    named = root.get("$schema", _2020) if isinstance(root, Mapping) else _2020
    draft: str = named.removesuffix("#")
    return draft


def _parts(root: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in a schema."""
    todo = [root]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            yield part
        todo += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
