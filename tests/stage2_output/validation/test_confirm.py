"""`jsonschema-rs` changes no verdict: it confirms valid values, and `jsonschema` checks the rest."""

import json
import sys
from collections import Counter
from contextlib import nullcontext
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stage2_output import CompiledSchema, InvalidSchema
from stage2_output.validation import confirm
from stage2_output.validation.confirm import never
from tests.tables import for_each

DRAFT7 = "http://json-schema.org/draft-07/schema#"
DRAFT2020 = "https://json-schema.org/draft/2020-12/schema"


@pytest.fixture(params=[True, False], ids=["with jsonschema-rs", "without"])
def with_rs(request, monkeypatch):
    """Whether `jsonschema_rs` can be imported."""
    if request.param:
        pytest.importorskip("jsonschema_rs")
    else:
        monkeypatch.setattr(confirm, "find_spec", lambda name: None)
    return request.param


def is_confirmed(schema):
    return CompiledSchema(schema)._confirm is not never


# ---- schemas that are confirmed
# ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
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
    pytest.importorskip("jsonschema_rs")
    assert is_confirmed(schema)


@for_each(
    "schema",
    [
        True,
        {"format": "email"},
        {"multipleOf": 0.1},
        {"patternProperties": {"a": {}}},
        {"unevaluatedProperties": False},
        {"enum": [10**30]},
        {"const": 1e30},
        {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"},
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
    assert not is_confirmed(schema)


def test_schemas_with_exponentially_many_references_are_checked_by_jsonschema_only():
    chained = {f"s{n}": {"anyOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(30)}
    compiled = CompiledSchema(
        {"$defs": {**chained, "s30": {"type": "integer"}}, "$ref": "#/$defs/s0"}
    )
    assert compiled._confirm is never
    assert compiled.fits(1)


# ---- the same verdicts
# ------------------------------------------------------------------------------------

DEEP = []
for _ in range(100_000):
    DEEP = [DEEP]


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
        ({"type": "array"}, DEEP, True),
    ],
)
def test_special_values_have_the_same_verdict_with_and_without_jsonschema_rs(
    schema, value, fits, with_rs
):
    compiled = CompiledSchema(schema)
    assert compiled.fits(value) is fits
    assert (compiled.issues(value) == ()) is fits


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
SCHEMAS = st.deferred(lambda: st.booleans() | st.lists(RULE, max_size=3).map(dict))
RULE = st.deferred(
    lambda: st.one_of([st.tuples(st.just(name), each) for name, each in KEYWORDS.items()])
)
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


@pytest.mark.parametrize("examples", [6, pytest.param(40, marks=pytest.mark.long)])
@pytest.mark.parametrize("draft", [DRAFT2020, DRAFT7])
@pytest.mark.parametrize("keyword", KEYWORDS)
def test_random_schemas_and_values_have_the_verdict_of_jsonschema_alone(
    keyword, draft, examples, monkeypatch
):
    pytest.importorskip("jsonschema_rs")
    seen = Counter()

    @settings(max_examples=examples)
    @given(st.data())
    def judge(data):
        rules = data.draw(st.lists(RULE, max_size=3).map(dict)) | {
            keyword: data.draw(KEYWORDS[keyword])
        }
        definitions = {"a": data.draw(SCHEMAS), "b": {"type": "integer"}}
        schema = {"$schema": draft, **rules, "$defs": definitions}
        try:
            fast = CompiledSchema(schema)
        except InvalidSchema:
            return
        with monkeypatch.context() as without:
            without.setattr(confirm, "find_spec", lambda name: None)
            slow = CompiledSchema(schema)
        for value in data.draw(st.lists(VALUES, min_size=4, max_size=4)):
            fits = slow.fits(value)
            assert fast.fits(value) is fits
            assert (fast.issues(value) == ()) is fits
            seen[fast._confirm is never, fits] += 1

    judge()
    assert seen


def error_of(schema):
    """Return the text of the error of an invalid schema, or None."""
    try:
        CompiledSchema(schema)
    except InvalidSchema as error:
        return str(error)
    return None


NAMES_OF_KEYWORDS = [*KEYWORDS, "$id", "$anchor", "$dynamicRef", "$defs", "$comment", "items"]


@settings(max_examples=100)
@given(
    st.sampled_from([DRAFT2020, DRAFT7]),
    st.lists(RULE, max_size=3).map(dict),
    st.sampled_from(NAMES_OF_KEYWORDS),
    VALUES | st.sampled_from([{"a": {"type": "text"}}, {"type": []}, ["a", "a"], {"b": ["a"]}]),
)
def test_an_invalid_schema_has_the_same_error_with_and_without_jsonschema_rs(
    draft, rules, keyword, value
):
    pytest.importorskip("jsonschema_rs")
    for schema in (
        {"$schema": draft, **rules, keyword: value},
        {"$schema": draft, "properties": {"a": {**rules, keyword: value}}},
    ):
        with pytest.MonkeyPatch.context() as without:
            without.setattr(confirm, "find_spec", lambda name: None)
            expected = error_of(schema)
        assert error_of(schema) == expected


@settings(max_examples=300)
@given(st.lists(RULE, max_size=3).map(dict), VALUES)
@example({"patternProperties": {"a": False}}, {"ab": 1})
def test_verdicts_are_those_of_the_jsonschema_library(rules, value):
    schema = {**rules, "$defs": {"a": {"type": "string"}, "b": {"maximum": 2}}}
    if "uniqueItems" in json.dumps(schema):  # the library compares only neighbours
        return
    try:
        valid = jsonschema.Draft202012Validator(schema).is_valid(value)
    except (TypeError, ValueError, ArithmeticError):
        return
    assert CompiledSchema(schema).fits(value) is valid


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.long)])
def test_recorded_calls_have_the_verdict_of_the_jsonschema_library(every, recorded, say, with_rs):
    rows, _ = recorded("tools.jsonl")
    schemas, calls, wrong = {}, 0, []
    for row in rows[::every]:
        for tool in row["tools"]:
            if (key := json.dumps(tool["parameters"])) not in schemas:
                schemas[key] = (
                    CompiledSchema(tool["parameters"]),
                    jsonschema.Draft202012Validator(tool["parameters"]),
                )
        tools = {tool["name"]: schemas[json.dumps(tool["parameters"])] for tool in row["tools"]}
        for call in [*row["valid_calls"], *row.get("invalid_calls", ())]:
            ours, library = tools[call["name"]]
            calls += 1
            if ours.fits(call["arguments"]) is not library.is_valid(call["arguments"]):
                wrong.append((row["id"], call))
    confirmed = sum(ours._confirm is not never for ours, _ in schemas.values())
    say(
        f"tools.jsonl: {calls} calls judged alike; jsonschema-rs confirms "
        f"{confirmed} of {len(schemas)} schemas"
    )
    assert wrong == []
    assert bool(confirmed) is with_rs


# ---- no side effects
# ---------------------------------------------------------------------------------


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


# Without the filter, jsonschema would raise the warning before it connects.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$schema"])
def test_references_and_dialects_are_never_downloaded(keyword, with_rs, connections):
    url, received = connections
    schema = {"properties": {"a": {keyword: url}}}
    with (
        nullcontext()
        if keyword == "$schema"
        else pytest.raises(InvalidSchema, match="does not contain")
    ):
        CompiledSchema(schema).issues({"a": 1})
    assert received == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_reference_to_data_is_never_downloaded(with_rs, connections):
    url, received = connections
    schema = {"default": {"$ref": url}, "properties": {"a": {"$ref": "#/default"}}}
    with pytest.raises(InvalidSchema, match="does not contain") if with_rs else nullcontext():
        assert not CompiledSchema(schema).fits({"a": 1})
    assert received == []


class PanicException(BaseException):
    """The class of panics of a library in Rust, which is not an `Exception`."""


def library_that(raises, *, when):
    """Return a stand-in for `jsonschema_rs` that raises an error in one of its three steps.

    It confirms nothing.
    """

    def step(name, result):
        def run(*args, **options):
            if name == when:
                raise raises
            return result

        return run

    class Validator:
        is_valid = staticmethod(step("checking", False))

    class Library:
        validator_for = staticmethod(step("compiling", Validator))

        class meta:  # noqa: N801
            is_valid = staticmethod(step("reading", False))

    return Library


STEPS = ["reading", "compiling", "checking"]


@pytest.mark.parametrize("error", [PanicException, ValueError])
@pytest.mark.parametrize("when", STEPS)
def test_after_a_failure_of_jsonschema_rs_the_verdict_is_that_of_jsonschema(
    error, when, monkeypatch
):
    monkeypatch.setattr(confirm, "find_spec", lambda name: True)
    monkeypatch.setitem(sys.modules, "jsonschema_rs", library_that(error, when=when))
    compiled = CompiledSchema({"type": "integer"})
    assert compiled.fits(1)
    assert compiled.issues(1) == ()
    assert not compiled.fits("1")
    with pytest.raises(InvalidSchema, match="invalid at"):
        CompiledSchema({"type": "text"})


@pytest.mark.parametrize("when", STEPS)
def test_a_keyboard_interrupt_in_jsonschema_rs_is_raised(when, monkeypatch):
    monkeypatch.setattr(confirm, "find_spec", lambda name: True)
    monkeypatch.setitem(sys.modules, "jsonschema_rs", library_that(KeyboardInterrupt, when=when))
    with pytest.raises(KeyboardInterrupt):
        CompiledSchema({"type": "integer"}).fits(1)
