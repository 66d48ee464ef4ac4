"""Validate the lines of a run file by `run.schema.json`.

A file may come from elsewhere, and a checksum does not prove its origin. So each line is validated
before its values are used. The JSON Schema is translated to a validator of pydantic-core, which is
much faster than jsonschema and supports the keywords that this schema uses. Used by `reader`.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic_core import SchemaValidator, ValidationError, core_schema

MAX_DEPTH = 300
"""The maximum nesting of a line. The writer writes values with at most 255 levels."""

Schema = Mapping[str, Any]


def parse_line(line: bytes) -> dict[str, Any]:
    """Return the fields of a line.

    Raises:
        ValueError: The line is not JSON, has an unknown type, or is nested too deeply.
    """
    try:
        fields = _decoder.decode(line.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        raise ValueError("It is not valid JSON.") from None
    if not isinstance(fields, dict) or str(fields.get("type")) not in _validators():
        raise ValueError("Its type is unknown.")
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and _depth(fields) > MAX_DEPTH:
        raise ValueError(f"It has more than {MAX_DEPTH} nested levels.")
    return fields


def validate_line(fields: Mapping[str, Any]) -> None:
    """Validate the fields of a line.

    Raises:
        ValueError: They do not fit the schema; the text names the invalid field.
    """
    try:
        _validators()[fields["type"]].validate_python(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        at = "/".join(str(part) for part in first["loc"])
        raise ValueError(f"Its value at {at!r:.100} is invalid: {first['msg']}.") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)


def _depth(value: object) -> int:
    depth, level = 0, list[Any]([value])
    while level:
        depth += 1
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [one for each in inner for one in each if isinstance(one, dict | list)]
    return depth


@cache
def _validators() -> dict[str, SchemaValidator]:
    """Return the validator of each kind of line."""
    from importlib.resources import files  # slow to import

    text = (files("llm_stages.runs") / "run.schema.json").read_text(encoding="utf-8")
    translate = _Translator(json.loads(text)["$defs"])
    return {
        name.removesuffix("_line"): SchemaValidator(translate(schema))
        for name, schema in translate.definitions.items()
        if name.endswith("_line")
    }


class _Translator:
    """Translates a JSON Schema to a schema of pydantic-core."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self.definitions = definitions

    def __call__(self, schema: Schema | bool) -> core_schema.CoreSchema:
        if isinstance(schema, bool):
            return core_schema.any_schema()
        if "$ref" in schema:
            return self(self.definitions[schema["$ref"].removeprefix("#/$defs/")])
        if "const" in schema or "enum" in schema:
            return core_schema.literal_schema(schema.get("enum") or [schema["const"]])
        if "anyOf" in schema:
            return core_schema.union_schema([self(each) for each in schema["anyOf"]])
        if "type" not in schema:
            return core_schema.any_schema()
        kinds = schema["type"]
        if isinstance(kinds, str):  # there is a method for each type of JSON
            found: core_schema.CoreSchema = getattr(self, kinds)(schema)
            return found
        if kinds[1:] == ["null"]:
            return core_schema.nullable_schema(self({**schema, "type": kinds[0]}))
        return core_schema.union_schema([self({**schema, "type": kind}) for kind in kinds])

    def array(self, schema: Schema) -> core_schema.CoreSchema:
        if "prefixItems" in schema:
            items = [self(each) for each in schema["prefixItems"]]
            return core_schema.tuple_schema(items)
        return core_schema.list_schema(self(schema.get("items", True)), strict=True)

    def object(self, schema: Schema) -> core_schema.CoreSchema:
        others = schema.get("additionalProperties", True)
        if "properties" not in schema:
            return core_schema.dict_schema(values_schema=self(others), strict=True)
        required = schema.get("required", ())
        fields = {
            name: core_schema.typed_dict_field(self(each), required=name in required)
            for name, each in schema["properties"].items()
        }
        return core_schema.typed_dict_schema(
            fields, extra_behavior="allow" if others else "forbid", strict=True
        )

    def string(self, schema: Schema) -> core_schema.CoreSchema:
        return core_schema.str_schema(pattern=schema.get("pattern"), strict=True)

    def integer(self, schema: Schema) -> core_schema.CoreSchema:
        return core_schema.int_schema(**_bounds(schema), strict=True)

    def number(self, schema: Schema) -> core_schema.CoreSchema:
        return core_schema.float_schema(**_bounds(schema), allow_inf_nan=False, strict=True)

    def boolean(self, schema: Schema) -> core_schema.CoreSchema:
        return core_schema.bool_schema(strict=True)

    def null(self, schema: Schema) -> core_schema.CoreSchema:
        return core_schema.none_schema()


_BOUNDS = {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt"}


def _bounds(schema: Schema) -> dict[str, Any]:
    return {_BOUNDS[name]: value for name, value in schema.items() if name in _BOUNDS}
