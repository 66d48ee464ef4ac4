"""JSON Schemas for the tests of this stage, and functions that check values with them."""

from stage2_output import CompiledSchema, Issue

DRAFT3 = "http://json-schema.org/draft-03/schema#"
DRAFT4 = "http://json-schema.org/draft-04/schema#"
DRAFT7 = "http://json-schema.org/draft-07/schema#"
DRAFT2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT2020 = "https://json-schema.org/draft/2020-12/schema"

NULL, BOOLEAN, STRING = {"type": "null"}, {"type": "boolean"}, {"type": "string"}
INTEGER, NUMBER = {"type": "integer"}, {"type": "number"}
ARRAY, OBJECT = {"type": "array"}, {"type": "object"}
SCHEMA = {"type": "object", "properties": {"n": INTEGER}, "required": ["n"]}

SECRET = "hunter2"  # a value that no issue may contain
TOO_DEEP = (Issue("", "is nested too deeply to be checked", "depth"),)
TOO_LARGE = (Issue("", "contains a number too large to be checked", "number"),)


def issues(schema, value):
    """Return the issues of a value."""
    return CompiledSchema(schema).issues(value)


def paths(schema, value):
    """Return the paths of the issues of a value."""
    return [issue.path for issue in issues(schema, value)]


def paths_and_messages(schema, value):
    """Return the path and the message of each issue of a value."""
    return [(issue.path, issue.message) for issue in issues(schema, value)]


def is_valid(compiled, value):
    """Return whether a value fits a compiled schema, and check that it then has no issues."""
    fits = compiled.fits(value)
    assert (compiled.issues(value) == ()) is fits
    return fits


def nested(depth, wrap, value):
    """Return a value that is wrapped several times."""
    for _ in range(depth):
        value = wrap(value)
    return value


def in_list(value):
    """Return a list of one value."""
    return [value]
