"""Reading takes linear time for any repeated text. The tests count function calls of Python and C."""

import sys

import pytest

from stage2_output import (
    CompiledSchema,
    ExtractionError,
    OutputController,
    extract_json,
    parse_partial,
)
from stage3_tools import parse_tool_decision, parse_tool_decisions

pytestmark = pytest.mark.long

CONTROLLER = OutputController()
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
LIBRARY_ONLY = {"required": ["a"], "unevaluatedProperties": False}
SHORT, LONG = 800, 1_600
MOST_PER_CHARACTER = 80


def extract(text):
    try:
        return extract_json(text)
    except ExtractionError as error:
        return error


READERS = {
    "extract_json": extract,
    "parse_partial": parse_partial,
    "without a schema": CONTROLLER.parse_and_validate,
    "with a schema": lambda text: CONTROLLER.parse_and_validate(text, SCHEMA),
    "with coercion": lambda text: CONTROLLER.parse_and_validate(text, SCHEMA, coerce=True),
    "with a schema for the library": lambda text: CONTROLLER.parse_and_validate(text, LIBRARY_ONLY),
    "truncated": lambda text: CONTROLLER.parse_and_validate(text, SCHEMA, truncated=True),
    "a decision": lambda text: parse_tool_decision(CONTROLLER, text),
    "decisions": lambda text: parse_tool_decisions(CONTROLLER, text),
}

# The beginning of a text, the repeated part, and the end.
TEXTS = {
    "broken mentions": ("", "`{", '"'),
    "broken mentions of lists": ("x ", "[`", ""),
    "mentions after a value": ("", '{"a":1}`[', ""),
    "broken code": ("", "```js\n{'a: 1\n```\n", ""),
    "broken values in thinking": ("", "<think>{'</think>", ""),
    "objects that do not fit": ("", "}{", ""),
    "damaged objects": ("", "{｝", ""),
    "items that do not fit": ("[", "\n‘", "]"),
    "comments after quotes": ("[[", "‘\n//1", ""),
    "quotes in a string": ('{"a": ', "`", "</tool_call>"),
    "strings cut by tags": ("x ", "{a:‚\n</a>", ""),
    "strings cut by fences": ("x ", '{"b":‚a\n```\n', ""),
    "numbers and ellipses": ("[[", "…11.", ""),
    "words": ("[", "，é", ""),
    "equal duplicates": ("{", "a:1,", "}"),
    "equal duplicates below escapes": (r"{\"a\":1", r",\"a\":1", "}"),
    "tuples": ("[", "(),", "]"),
    "equal objects that do not fit": ("", "{} ", ""),
    "escaped objects": ("x ", r"[\"\"] ", ""),
}


def calls(read, text):
    """The number of function calls that reading a text takes."""
    count = 0

    def step(frame, event, _):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(step)
    try:
        read(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("before", "unit", "after"), TEXTS.values(), ids=TEXTS)
def test_function_calls_grow_linearly_with_the_text(before, unit, after, reader):
    read = READERS[reader]
    short, long = (before + unit * (size // len(unit)) + after for size in (SHORT, LONG))
    read(before + unit + after)  # imports at first use are not counted
    first, second = calls(read, short), calls(read, long)
    # A lookahead of 1000 characters may find the end of a short text.
    assert second <= 2.2 * first + 3 * LONG
    assert second <= MOST_PER_CHARACTER * LONG


def opcodes(read, value):
    """The number of opcodes that Python executes; unlike calls, they include comparisons."""
    count = 0

    def step(frame, event, _):
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return step

    sys._getframe().f_trace_opcodes = True  # Python 3.12 reads this once, in settrace
    sys.settrace(step)
    try:
        read(value)
    finally:
        sys.settrace(None)
    return count


@pytest.mark.parametrize(
    "value",
    [lambda size: {f"k{number}": "x" for number in range(size)}, lambda size: ["x"] * size],
    ids=["members", "items"],
)
def test_opcodes_grow_linearly_with_the_errors_of_an_alternative(value):
    numbers = {"type": "object", "additionalProperties": {"type": "integer"}}
    schema = CompiledSchema({"anyOf": [numbers, {"type": "array", "items": {"type": "integer"}}]})
    short, long = (opcodes(schema.issues, value(size)) for size in (200, 400))
    assert long <= 2.2 * short


@pytest.mark.parametrize(
    ("lines", "errors"),
    [(1000, ()), (1001, ("The JSON that begins at character 9000 is one invalid value too many",))],
)
def test_at_most_a_thousand_damaged_values_of_a_text_are_read(lines, errors):
    result = CONTROLLER.parse_and_validate("{'a': 1}\n" * lines, SCHEMA)
    assert tuple(issue.message.partition(" (")[0] for issue in result.errors) == errors


@pytest.mark.parametrize(("quotes", "is_read"), [(1000, True), (1001, False)])
def test_at_most_a_thousand_unescaped_quotes_of_a_string_are_read(quotes, is_read):
    text = 'a"' * quotes + "a"
    found = extract(f'["{text}"]')
    assert found.value == [text] if is_read else isinstance(found, ExtractionError)
