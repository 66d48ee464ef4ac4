"""Exceptions of this stage.

`OutputError` reports a problem in a model's text, which feedback can answer. `InvalidSchema`
reports a developer's mistake and is raised when the schema is first used.
"""


class OutputError(ValueError):
    """A model's text cannot be read as data."""


class ExtractionError(OutputError):
    """The text contains no JSON, or only invalid JSON.

    Attributes:
        position: Index of the error in the text, or None if the text contains no JSON.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class InvalidSchema(ValueError):
    """A schema is not a valid JSON Schema, or a type has no JSON Schema."""
