"""`jsonschema-rs` changes no verdict: it confirms valid values, and `jsonschema` checks the rest."""

import json
import sys
from contextlib import contextmanager, nullcontext
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from types import SimpleNamespace

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stage2_output import CompiledSchema, InvalidSchema
from stage2_output.validation import confirm
from stage2_output.validation.confirm import never
from tests.stage2_output.schemas import (
    DRAFT4,
    DRAFT7,
    DRAFT2020,
    INTEGER,
    in_list,
    is_valid,
    nested,
)
from tests.tables import for_each


@contextmanager
def with_rs():
    """Skip a test if `jsonschema_rs` is not installed."""
    pytest.importorskip("jsonschema_rs")
    yield


@contextmanager
def without_rs():
    """Compile schemas as if `jsonschema_rs` were not installed."""
    with pytest.MonkeyPatch.context() as changes:
        changes.setattr(confirm, "find_spec", lambda name: None)
        yield


with_and_without_rs = for_each("library", [with_rs, without_rs])


def is_confirmed(compiled):
    return compiled._confirm is not never


# ---- schemas that are confirmed


@for_each(
    "schema",
    [
        {"type": "object", "properties": {"format": {"type": "string"}, "pattern": {}, "$id": {}}},
        {
            "$ref": "#/$defs/a",
            "$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"type": "integer"}},
        },
        {"$schema": DRAFT7, "$ref": "#/definitions/a", "definitions": {"a": {"minimum": 2}}},
    ],
)
def test_schemas_with_the_same_meaning_in_both_libraries_are_confirmed(schema):
    with with_rs():
        assert is_confirmed(CompiledSchema(schema))


@for_each(
    "schema",
    [
        True,
        {"format": "email"},
        {"multipleOf": 0.1},
        {"patternProperties": {"a": {}}},
        {"unevaluatedProperties": False},
        {"unevaluatedItems": False},
        {"$anchor": "a"},
        {"contentEncoding": "base64"},
        {"contentMediaType": "application/json"},
        {"enum": [10**30]},
        {"const": 1e30},
        {"$schema": DRAFT4, "type": "integer"},
        {"type": "array", "items": {"$ref": "#"}},
        {"anyOf": [{"$ref": "#"}, {}]},
        {"$defs": {"a": {"$id": "https://example.com/a"}}},
        {"$dynamicAnchor": "a", "items": {"$dynamicRef": "#a"}},
        {"not": {"pattern": "a"}},
        {"if": {"items": {"pattern": "a"}}, "else": False},
        *(
            {"pattern": pattern}
            for pattern in (r"\s", r"^\w+$", r"[^\d]", "a++b", "(?=a)", "[a&&b]", "[[a]", "a{,3}")
        ),
    ],
)
def test_other_schemas_are_checked_by_jsonschema_only(schema):
    assert not is_confirmed(CompiledSchema(schema))


def test_schemas_with_exponentially_many_references_are_checked_by_jsonschema_only():
    chained = {f"s{n}": {"anyOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(30)}
    compiled = CompiledSchema({"$defs": {**chained, "s30": INTEGER}, "$ref": "#/$defs/s0"})
    assert not is_confirmed(compiled)
    assert compiled.fits(1)


# ---- the same verdicts


@with_and_without_rs
@for_each(
    "schema, value, fits",
    [
        ({"type": "integer"}, 1.0, True),
        ({"type": "integer"}, True, False),
        ({"type": "integer"}, 10**400, True),
        ({"type": "number"}, float("nan"), True),
        ({"type": "null"}, float("nan"), False),
        ({"type": "array"}, (1,), False),
        ({"properties": {"a": {"type": "array"}}}, {"a": (1,)}, False),
        ({"type": "string"}, "\ud800", True),
        ({"type": "object"}, {1: 2}, True),
        ({"const": 1}, True, False),
        ({"enum": [True]}, 1.0, False),
        ({"enum": [0]}, -0.0, True),
        ({"uniqueItems": True}, [1, True, "1"], True),
        ({"uniqueItems": True}, [1, 1.0], False),
        ({"uniqueItems": True}, [[1], [True], [1]], False),
        ({"uniqueItems": True}, [10**22, 1e22], False),
        ({"maximum": 5}, 2**53 + 1, False),
        (
            {"$schema": DRAFT7, "$ref": "#/definitions/a", "minimum": 5, "definitions": {"a": {}}},
            1,
            True,
        ),
        ({"$schema": DRAFT7, "prefixItems": [False]}, [1], True),
        ({"pattern": "^a$"}, "a\n", True),
        ({"pattern": r"^\d$"}, "٣", True),
        ({"type": "array"}, nested(100_000, in_list, []), True),
    ],
)
def test_special_values_have_the_same_verdict_with_and_without_jsonschema_rs(
    schema, value, fits, library
):
    with library():
        assert is_valid(CompiledSchema(schema), value) is fits


NAMES = st.sampled_from(["a", "b", "ab", ""])
NUMBERS = st.sampled_from(
    [0, 1, 2, 3, -1, 1.0, 2.5, -0.0, 2**53, 2**53 + 1, 10**30, 1e30, float("nan")]
)
STRINGS = st.sampled_from(["", "a", "b", "ab", "a\n", "é", "1", "٣", "\U0001f600", "\ud800"])
VALUES = st.recursive(
    st.sampled_from([None, True, False]) | NUMBERS | STRINGS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3) | st.tuples(inner)
    ),
    max_leaves=6,
)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
PATTERNS = st.sampled_from(
    ["a", "^a$", "b|c", r"^\d+$", "", "(a)b", "[^a]", "^[a-b]{1,2}$", "a.?$"]
)
SIZES = st.sampled_from([0, 1, 2, 2.0])
SCHEMAS = st.deferred(lambda: st.booleans() | RULES)
RULE = st.deferred(
    lambda: st.one_of([st.tuples(st.just(name), strategy) for name, strategy in KEYWORDS.items()])
)
RULES = st.lists(RULE, max_size=3).map(dict)
SCHEMA_LISTS = st.lists(SCHEMAS, min_size=1, max_size=2)
KEYWORDS = {
    "$ref": st.sampled_from(["#/$defs/a", "#/$defs/b"]),
    "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
    "enum": st.lists(VALUES, min_size=1, max_size=4),
    "const": VALUES,
    **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], NUMBERS),
    **dict.fromkeys(["minLength", "maxLength", "minItems", "maxItems"], SIZES),
    **dict.fromkeys(["minContains", "maxContains", "minProperties", "maxProperties"], SIZES),
    **dict.fromkeys(["allOf", "anyOf", "oneOf", "prefixItems"], SCHEMA_LISTS),
    **dict.fromkeys(["not", "if", "then", "else", "contains", "items"], SCHEMAS),
    **dict.fromkeys(["additionalProperties", "propertyNames", "unevaluatedProperties"], SCHEMAS),
    **dict.fromkeys(
        ["properties", "dependentSchemas"], st.dictionaries(NAMES, SCHEMAS, max_size=2)
    ),
    "multipleOf": st.sampled_from([1, 2, 0.5]),
    "pattern": PATTERNS,
    "uniqueItems": st.booleans(),
    "patternProperties": st.dictionaries(PATTERNS, SCHEMAS, max_size=2),
    "required": st.lists(NAMES, max_size=2, unique=True),
    "dependentRequired": st.dictionaries(
        NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2
    ),
    "format": st.just("email"),
}


@st.composite
def random_schemas(draw, keyword):
    """Draw a schema with a keyword, with other rules, and with references."""
    draft, others = draw(st.sampled_from([DRAFT2020, DRAFT7])), draw(RULES)
    definitions = {"a": draw(SCHEMAS), "b": INTEGER}
    return {"$schema": draft, **others, keyword: draw(KEYWORDS[keyword]), "$defs": definitions}


@pytest.mark.parametrize("examples", [3, pytest.param(80, marks=pytest.mark.long)])
@for_each("keyword", KEYWORDS)
def test_random_schemas_and_values_have_the_verdict_of_jsonschema_alone(keyword, examples):
    seen = set()

    @settings(max_examples=examples)
    @given(random_schemas(keyword), st.lists(VALUES, min_size=4, max_size=4))
    def compare(schema, values):
        try:
            fast = CompiledSchema(schema)
        except InvalidSchema:
            return
        with without_rs():
            slow = CompiledSchema(schema)
        for value in values:
            assert is_valid(fast, value) is slow.fits(value)
            seen.add(slow.fits(value))

    with with_rs():
        compare()
    assert seen


@pytest.mark.parametrize("examples", [60, pytest.param(600, marks=pytest.mark.long)])
def test_verdicts_are_those_of_the_jsonschema_library(examples):
    seen = set()

    @settings(max_examples=examples)
    @given(RULES, VALUES)
    @example({"patternProperties": {"a": False}}, {"ab": 1})
    def compare(rules, value):
        schema = {**rules, "$defs": {"a": {"type": "string"}, "b": {"maximum": 2}}}
        if "uniqueItems" in json.dumps(schema):  # the library compares only neighbours
            return
        try:
            valid = jsonschema.Draft202012Validator(schema).is_valid(value)
        except (TypeError, ValueError, ArithmeticError):
            return
        assert CompiledSchema(schema).fits(value) is valid
        seen.add(valid)

    compare()
    assert seen == {True, False}


@pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("library", [with_rs, without_rs])
def test_recorded_calls_have_the_verdict_of_the_jsonschema_library(every, recorded, say, library):
    rows, _ = recorded("tools.jsonl")
    calls, wrong, confirmed = 0, [], set()
    for row in rows[::every]:
        parameters = {tool["name"]: tool["parameters"] for tool in row["tools"]}
        for call in [*row["valid_calls"], *row.get("invalid_calls", ())]:
            schema = parameters[call["name"]]
            with library():
                compiled = CompiledSchema(schema)
            confirmed.add(is_confirmed(compiled))
            valid = jsonschema.Draft202012Validator(schema).is_valid(call["arguments"])
            calls += 1
            if compiled.fits(call["arguments"]) is not valid:
                wrong.append((row["id"], call))
    say(f"tools.jsonl: {calls} calls have the same verdict")
    assert wrong == []
    assert (True in confirmed) is (library is with_rs)


# ---- no side effects


@pytest.fixture
def connections():
    """The URL of a server on loopback, and the connections that it received."""
    received = []

    class Count(BaseRequestHandler):
        def handle(self):
            received.append(self.client_address)

    with ThreadingTCPServer(("127.0.0.1", 0), Count) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/a.json", received
        server.shutdown()
        thread.join()


NOT_CONTAINED = pytest.raises(InvalidSchema, match="does not contain")


# Without the filter, jsonschema would raise the warning before it connects.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@with_and_without_rs
@for_each(
    "keyword, error",
    [("$ref", NOT_CONTAINED), ("$dynamicRef", NOT_CONTAINED), ("$schema", nullcontext())],
)
def test_references_and_dialects_are_never_downloaded(keyword, error, library, connections):
    url, received = connections
    with library(), error:
        CompiledSchema({"properties": {"a": {keyword: url}}}).issues({"a": 1})
    assert received == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@for_each("library, error", [(with_rs, NOT_CONTAINED), (without_rs, nullcontext())])
def test_a_reference_to_data_is_never_downloaded(library, error, connections):
    url, received = connections
    schema = {"default": {"$ref": url}, "properties": {"a": {"$ref": "#/default"}}}
    with library(), error:
        assert not CompiledSchema(schema).fits({"a": 1})
    assert received == []


class PanicException(BaseException):
    """The class of panics of a library in Rust, which is not an `Exception`."""


@contextmanager
def failing_library(error, *, when):
    """Replace `jsonschema_rs` by a module that confirms nothing and raises an error in one step."""

    def step(name, result):
        def run(*args, **options):
            if name == when:
                raise error
            return result

        return run

    validator = SimpleNamespace(is_valid=step("checking", False))
    library = SimpleNamespace(validator_for=step("compiling", validator))
    with pytest.MonkeyPatch.context() as changes:
        changes.setattr(confirm, "find_spec", lambda name: True)
        changes.setitem(sys.modules, "jsonschema_rs", library)
        yield


STEPS = ["compiling", "checking"]


@for_each("error", [PanicException, ValueError])
@for_each("when", STEPS)
def test_after_a_failure_of_jsonschema_rs_the_verdict_is_that_of_jsonschema(error, when):
    with failing_library(error, when=when):
        compiled = CompiledSchema(INTEGER)
        assert is_valid(compiled, 1)
        assert not is_valid(compiled, "1")


@for_each("when", STEPS)
def test_a_keyboard_interrupt_in_jsonschema_rs_is_raised(when):
    with failing_library(KeyboardInterrupt, when=when), pytest.raises(KeyboardInterrupt):
        CompiledSchema(INTEGER).fits(1)
