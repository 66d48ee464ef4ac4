"""`TypedReply`: a final reply of a type, for the option `output_type`.

The dialect requests it, the server receives its JSON Schema where it supports that, and the reply
is validated in any case. Used by `RunState`.
"""

import json
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

from stage0_gateway import ChatModel
from stage2_output import OutputController, feedback, parse_partial
from stage3_tools.dialects.protocol import (
    Dialect,
    FinalReply,
    InvalidReply,
    OutputDialect,
    RequestParts,
)
from stage3_tools.options import type_error

_INVALID = "Your answer must be JSON that fits its schema."
_UNKNOWN_MODEL = (
    "The model of this run is unknown, so its server does not receive the JSON Schema of "
    "output_type; the prompt asks for it. Write ToolLoopDeps(gateway), or "
    "ToolLoopDeps(chat, gateway=gateway) for a function around a gateway."
)


class TypedReply:
    """The type of the final reply.

    Args:
        controller: Validates replies.
        output_type: A type that pydantic supports, or a JSON Schema.
    """

    def __init__(self, controller: OutputController, output_type: Any) -> None:
        self._controller, self._type = controller, output_type

    @cached_property
    def schema(self) -> Any:
        """The JSON Schema of the type."""
        return self._controller.compile(self._type).schema

    def dialect(self, dialect: Dialect) -> Dialect:
        """The dialect that requests replies of this type.

        Raises:
            TypeError: The dialect has no `for_output`.
        """
        if not isinstance(dialect, OutputDialect):
            hint = "output_type needs for_output(schema)."
            raise type_error("dialect", dialect, OutputDialect, hint)
        return dialect.for_output(self.schema)

    def check(self, reply: FinalReply) -> FinalReply | InvalidReply:
        """Validate a reply."""
        result = self._controller.parse_and_validate(reply.message.text, self._type)
        if result.extraction is None or not result.success:
            return InvalidReply(reply.message, f"{_INVALID}\n{feedback(result)}", result.errors)
        text = json.dumps(result.extraction.value, ensure_ascii=False)
        return replace(reply, output_text=text, output=result.data)


def partial_value(text: str) -> Any:
    """The value of an incomplete reply; None if it has not begun."""
    value = parse_partial(text).value
    if value is None:  # only objects and arrays have a partial value
        with suppress(ValueError):
            return json.loads(text)
    return value


def server_supports_schema(gateway: ChatModel | None, parts: RequestParts) -> bool:
    """Whether the server supports structured output for the schema of a request."""
    schema = parts.response_schema
    if gateway is None or not isinstance(schema, Mapping) or schema.get("type") != "object":
        return False
    return gateway.supports_schema_with_tools if parts.tools else gateway.supports_schema


def warn_of_unknown_model() -> None:
    """Warn that the server cannot receive the JSON Schema of the type."""
    warnings.warn(_UNKNOWN_MODEL, UserWarning, stacklevel=2)
