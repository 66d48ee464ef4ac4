"""Unambiguous variants of JSON: tuples, digit separators, unquoted keys, equal duplicates."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage2_output import ExtractionError, OutputController, extract_json, parse_partial
from tests.stage2_output.texts import repairs
from tests.tables import for_each

# Text, value, repairs as "name@position".
READ = {
    "a tuple": ('{"a": (1, 2)}', {"a": [1, 2]}, "tuple@6"),
    "a tuple of one": ('{"a": (1,)}', {"a": [1]}, "tuple@6"),
    "an empty tuple": ('{"a": ()}', {"a": []}, "tuple@6"),
    "a comma at the end of a tuple": ('["a", ("b", "c",)]', ["a", ["b", "c"]], "tuple@6"),
    "tuples in a list": ('[(1, "a"), ("b", 2)]', [[1, "a"], ["b", 2]], "tuple@1 tuple@11"),
    "tuples in tuples": ("[((1, 2), [3, (4,)])]", [[[1, 2], [3, [4]]]], "tuple@1 tuple@2 tuple@14"),
    "an object in a tuple": ('{"a": ({"b": 1}, 2)}', {"a": [{"b": 1}, 2]}, "tuple@6"),
    "literals in a tuple": ("[(True, None)]", [[True, None]], "tuple@1 literal@2 literal@8"),
    "strings in a tuple": ("[('a', 'b')]", [["a", "b"]], "tuple@1 single_quotes@2 single_quotes@7"),
    "lines in a tuple": ("[(\n1, # one\n2\n)]", [[1, 2]], "tuple@1 comment@6"),
    "a tuple after a string": ('["a", (1, 2)]', ["a", [1, 2]], "tuple@6"),
    "round brackets in a string": ('["(1, 2)", (1, "2)")]', ["(1, 2)", [1, "2)"]], "tuple@11"),
    "separators": ('{"n": 82_461_110}', {"n": 82461110}, "digit_separators@6"),
    "separators after a string": ('["a", 1_000]', ["a", 1000], "digit_separators@6"),
    "separators in a fraction's whole part": ("[-1_000.5]", [-1000.5], "digit_separators@1"),
    "separators before a comment": ("[1_0 // ten\n]", [10], "digit_separators@1 comment@5"),
    "separators in a tuple": ("[(1_0, 2)]", [[10, 2]], "tuple@1 digit_separators@2"),
    "a number for a key": ('{1: "a"}', {"1": "a"}, "unquoted_key@1"),
    "a negative number for a key": ('{-1: "a"}', {"-1": "a"}, "unquoted_key@1"),
    "a fraction for a key": ('{1.5: "a"}', {"1.5": "a"}, "unquoted_key@1"),
    "a number for a key after a string": (
        '{"a": "b", -1.5: 2}',
        {"a": "b", "-1.5": 2},
        "unquoted_key@11",
    ),
    "literals for keys": (
        "{null: 1, true: 2}",
        {"null": 1, "true": 2},
        "unquoted_key@1 unquoted_key@10",
    ),
    "equal duplicates": ('{"a": 1, "b": 2, "a": 1}', {"a": 1, "b": 2}, "duplicate_key@17"),
    "three equal": ('[{"a":0,"a":0,"a":0}]', [{"a": 0}], "duplicate_key@8 duplicate_key@14"),
    "equal arrays": ('{"a": [1, "b"], "a": [1, "b"]}', {"a": [1, "b"]}, "duplicate_key@16"),
    "equal objects in another order": (
        '{"a": {"x": 1, "y": 2}, "a": {"y": 2, "x": 1}}',
        {"a": {"x": 1, "y": 2}},
        "duplicate_key@24",
    ),
    "equal duplicates in a duplicate": (
        '{"a": {"x": 1, "x": 1}, "a": {"x": 1}}',
        {"a": {"x": 1}},
        "duplicate_key@15 duplicate_key@24",
    ),
    "one key with and one without quotes": (
        '{1: "a", "1": "a"}',
        {"1": "a"},
        "unquoted_key@1 duplicate_key@9",
    ),
    "an equal key that is written in two ways": (
        r'{"a": 1, "\u0061": 1}',
        {"a": 1},
        "duplicate_key@9",
    ),
}


@for_each("before", ["", "So: "])
@for_each("text, value, names", READ.values())
def test_an_unambiguous_variant_is_read_as_complete_and_its_repairs_are_reported(
    text, value, names, before
):
    found = extract_json(before + text)
    assert (json.dumps(found.value), found.complete) == (json.dumps(value), True)
    assert repairs(found, len(before)) == names


REJECTED = {
    "round brackets around one value": ('{"a": (1)}', "has round brackets around one value", 8),
    "strings side by side": ('{"a": ("b" "c")}', "lacks a comma at round brackets", 11),
    "a call": ("[(1, 2) (3, 4)]", "lacks a comma at round brackets", 8),
    "names in a tuple": (
        "[(b, c)]",
        "has text without quotes that can be read in more ways than one",
        3,
    ),
    "arithmetic": ('{"a": (1 + 2)}', "has an invalid number or literal", 7),
    "an interval": ('{"a": (1, 2]}', "has an unexpected ]", 11),
    "a tuple for a key": ("{(1, 2): 3}", "has an invalid key", 1),
    "two separators": ("[1__0]", "has a number in a format that JSON does not allow", 1),
    "a separator at the end": ("[1_, 2]", "has a number in a format that JSON does not allow", 1),
    "a separator after zero": ("[0_1]", "has a number in a format that JSON does not allow", 1),
    "a separator in a fraction": (
        "[1_0.0_1]",
        "has a number in a format that JSON does not allow",
        1,
    ),
    "different duplicates": ('{"a": 1, "a": 2}', 'has the key "a" twice in one object', 9),
    "duplicates of two types": ('{"a": 1, "a": 1.0}', 'has the key "a" twice in one object', 9),
    "one and true": ('{"a": [1], "a": [true]}', 'has the key "a" twice in one object', 11),
    "the second of three": ('{"a": 1, "a": 2, "a": 1}', 'has the key "a" twice in one object', 17),
    "different duplicates in a duplicate": (
        '{"a": {"x": 1}, "a": {"x": 1, "x": 2}}',
        'has the key "x" twice in one object',
        30,
    ),
    "different duplicates without an end": (
        '{"a": "b", "a": "c',
        'has the key "a" twice in one object',
        11,
    ),
}


@for_each("text, reason, position", REJECTED.values())
def test_an_ambiguous_variant_raises_an_error(text, reason, position):
    with pytest.raises(ExtractionError) as caught:
        extract_json(text)
    assert (
        str(caught.value)
        == f"The JSON that begins at character 0 {reason} (at character {position})."
    )


@for_each(
    "text, value",
    [
        ('{"a": (1, 2', {"a": [1, 2]}),
        ('{"a": (1, 2}', {"a": [1, 2]}),
        ("[(1, ...)]", [[1]]),
        ('{"n": 82_461_', {}),
        ('{"a": [1], "a": [1', {"a": [1]}),
    ],
)
def test_a_truncated_variant_is_not_complete(text, value):
    found = extract_json(text)
    assert (found.value, found.complete) == (value, False)


@for_each("text", ["See [(a)] and [(1) b].", "So [(see below)] it is.", "Call f(1, 2)."])
def test_round_brackets_in_prose_are_not_json(text):
    assert extract_json(f'{text} {{"a": 1}}').value == {"a": 1}


def test_a_quote_before_round_brackets_is_part_of_the_text():
    assert extract_json('["he "x", (then) left"]').value == ['he "x", (then) left']


def test_a_tool_decision_may_have_an_equal_duplicate_key():
    from stage3_tools import ToolDecision, parse_tool_decision

    text = '{"tool": "add", "arguments": {"by": (1, 2)}, "tool": "add"}'
    decision = parse_tool_decision(OutputController(), text)
    assert decision == ToolDecision("add", {"by": [1, 2]})
    assert decision.repairs == (("tuple", 36), ("duplicate_key", 45))


# ---- partial values


@for_each(
    "text, end",
    [
        ('{"a": 1, "a": 2, "b": 3}', 7),
        ('{"a": 1, "a": 1.0, "b": 3}', 7),
        ('{"a": [1], "a": [1, {"x": 2, "x": 2}], "b": 3}', 9),
        ('{"a": {"x": 1}, "a": {"x": 1, "x": 2}, "b": 3}', 14),
        ('{"a": "b", "a": "bc', 9),
    ],
)
def test_a_duplicate_key_with_a_different_value_ends_a_partial_value(text, end):
    found = parse_partial(text)
    assert (found.value, found.end) == (parse_partial(text[: end + 1]).value, end)
    assert (found.complete, found.open, found.repairs) == (False, ("",), ())


KEYS = st.sampled_from("ab")
VALUES = st.recursive(
    st.sampled_from(["1", "1.0", "true", "null", '"a"']),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(KEYS, inner), max_size=3).map(
            lambda members: "{" + ", ".join(f'"{key}": {value}' for key, value in members) + "}"
        )
    ),
    max_leaves=8,
)


def value_of(text):
    """Parse a text; raise ValueError if a duplicate key has a different value."""

    def merged(pairs):
        found = {}
        for key, value in pairs:
            if json.dumps(found.setdefault(key, value), sort_keys=True) != json.dumps(
                value, sort_keys=True
            ):
                raise ValueError(key)
        return found

    return json.loads(text, object_pairs_hook=merged)


@given(VALUES, VALUES)
def test_duplicate_keys_are_read_if_their_values_are_equal_and_never_complete_in_a_partial_value(
    one, other
):
    text = f'{{"a": {one}, "c": {other}, "a": {one}}}'
    assert not parse_partial(text).complete
    try:
        value = json.dumps(value_of(text))
    except ValueError:
        with pytest.raises(ExtractionError):
            extract_json(text)
        return
    whole = extract_json(text)
    assert json.dumps(whole.value) == value
    assert {repair.name for repair in whole.repairs} == {"duplicate_key"}
