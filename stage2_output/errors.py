"""What can be wrong with a model's text, and with the schema it is held to.

Two audiences, two trees: an `OutputError` is about what a model wrote and can be answered with
feedback; an `InvalidSchema` is the developer's and is raised as soon as the schema is seen.
"""


class OutputError(ValueError):
    """A model's text could not be read as data."""


class ExtractionError(OutputError):
    """There is no JSON in the text, or what looks like JSON is broken.

    Attributes:
        position: Index into the text where it went wrong, or None where there is no JSON at all.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class InvalidSchema(ValueError):
    """A JSON Schema that is none; the text says where."""
