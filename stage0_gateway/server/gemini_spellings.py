"""Convert the spellings of a Gemini request to one: camelCase fields, and JSON Schemas.

Google accepts each field as `functionDeclarations` and as `function_declarations`, and clients use
both, even in one request. A schema in `parameters` and `responseSchema` is Google's own: its types
are in capitals, `nullable` stands for the type null, and its limits may be texts. This module is
pure and knows nothing else about the format; `gemini.py` decodes the result.

Names that the program chose are unchanged: arguments, results, labels, and the properties of a
schema.
"""

import re
from collections.abc import Mapping
from typing import Any

_SCHEMAS = ("parameters", "responseSchema")
_UNCHANGED = (
    "args",
    "labels",
    "parametersJsonSchema",
    "partMetadata",
    "response",
    "responseJsonSchema",
)
_UNDERSCORE = re.compile(r"(?<=[a-zA-Z0-9])_+([a-zA-Z0-9])")


def with_one_spelling(value: Any) -> Any:
    """Return a request, or a part of it, with camelCase fields and JSON Schemas."""
    if isinstance(value, list):
        return [with_one_spelling(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {name: _field(name, field) for name, field in _camel_case(value).items()}


def _field(name: str, value: Any) -> Any:
    if name in _UNCHANGED:
        return value
    return json_schema(value) if name in _SCHEMAS else with_one_spelling(value)


def _camel_case(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        _UNDERSCORE.sub(lambda found: found[1].upper(), name): value
        for name, value in fields.items()
    }


def json_schema(value: Any) -> Any:
    """Return one of Google's schemas as a JSON Schema; a JSON Schema is unchanged."""
    if isinstance(value, list):
        return [json_schema(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    schema = {name: _keyword(name, keyword) for name, keyword in _camel_case(value).items()}
    if schema.get("type") in ("type_unspecified", ""):
        del schema["type"]
    return _with_null(schema) if schema.pop("nullable", None) is True else schema


def _keyword(name: str, value: Any) -> Any:
    """Convert the value of a keyword."""
    match name, value:
        case (("properties" | "defs" | "$defs" | "definitions"), Mapping()):
            return {key: json_schema(schema) for key, schema in value.items()}
        case (("items" | "prefixItems" | "anyOf" | "oneOf" | "allOf" | "additionalProperties"), _):
            return json_schema(value)
        case "type", str():
            return value.lower()
        case "type", list():
            return [kind.lower() if isinstance(kind, str) else kind for kind in value]
        case _, str() if name.startswith(("min", "max")) and value.isdecimal():
            return int(value)
    return value


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that also accepts null."""
    match schema:
        case {"anyOf": list(branches)}:
            return {**schema, "anyOf": [*branches, {"type": "null"}]}
        case {"type": str(kind), **others}:
            schema = {**others, "type": [kind, "null"]}
    if isinstance(choices := schema.get("enum"), list):
        return {**schema, "enum": [*choices, None]}
    return schema
