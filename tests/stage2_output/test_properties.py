"""Random values with the damage and the surrounding text that models produce: the result is correct,
an error, or marked as incomplete."""

import json
from itertools import pairwise
from random import Random

from hypothesis import assume
from hypothesis import strategies as st

from stage2_output import Extraction, OutputController
from stage2_output.extract import find_json
from stage2_output.parsing.strict import read_strictly
from tests.random_values import random_examples
from tests.stage2_output.damaged_json import INSIDE, OUTSIDE, Writer, damaged, listed, reply
from tests.stage2_output.schemas import SCHEMA
from tests.stage2_output.texts import read, same
from tests.tables import for_each

SHORT_MARKS = "\",:{}[]'` \n\\ab1.-+=()<>é中😀“”‘’，："
MARKS = [*SHORT_MARKS, "# ", *listed("//, /*, */, ```, </a>, <think>, </think>, ...")]
WORDS = [
    "no,",
    '"hi",',
    '"so"',
    *listed("a, big, city, it's, don't, 5, e.g., é, 中文, (so), x-y, 3.5, true, null, at:"),
]
ODD = [
    "true",
    "null",
    "12",
    "",
    " ",
    "\t\x00",
    "\u2028",
    'say "hi" to',
    "C:\\new\\d",
    "D:\\data\\ok",
]
HOSTILE = st.lists(st.sampled_from(MARKS), max_size=6).map("".join)
TEXTS = HOSTILE | st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join) | st.sampled_from(ODD)
NUMBERS = (
    st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False) | st.just(0.5)
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
KEYS = st.sampled_from(listed("a, b, name, k1, x_y, value, tool, arguments")) | TEXTS
INNER = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=8
)
ANY = st.lists(INNER, max_size=4) | st.dictionaries(KEYS, INNER, max_size=4)


def is_harmless(found, value, text):
    """Whether a result is an error, incomplete with a reason, or correct with its repairs."""
    if found is None or not found.complete:
        return found is None or bool(found.repairs)
    is_valid = read_strictly(text[found.start : found.end], 0) is not None
    return same(found.value, value) and (is_valid or bool(found.repairs))


@random_examples(15, 120, ANY, st.integers(0, 10**9))
def test_a_damaged_value_is_read_correctly_or_not_as_complete(value, seed):
    random = Random(seed)
    for damage in INSIDE + OUTSIDE:
        text = reply(value, [damage, *random.sample(INSIDE + OUTSIDE, random.randrange(3))], random)
        found = read(text)
        assert is_harmless(found, value, text), (text, found)


@random_examples(8, 60, ANY, st.integers(0, 10**9))
def test_an_undamaged_value_is_read_correctly_from_any_surrounding_text(value, seed):
    assume(isinstance(value, dict) or len(value) > 1)  # [ ] is a checkbox in prose, [1] a citation
    random = Random(seed)
    for _ in range(5):
        text = reply(value, [], random)
        found = read(text)
        assert found is not None, text
        assert found == Extraction(value, found.start, found.end, found.source), text
        assert same(
            read_strictly(text[found.start : found.end], 0), [value, found.end - found.start]
        )


PLAIN_VALUES = [
    {
        "name": "Oslo's",
        "days": [1, 2.5, "three"],
        "note": None,
        "more": {"sure": True, "x_y": 'so "no", he said'},
    },
    [
        {"a": "it's", "b": 'say "hi" to'},
        {"a": "one\ntwo", "b": "C:\\data\\old"},
        ["x", "", "y z"],
        [],
    ],
]


@for_each("damage", [damage for damage in INSIDE + OUTSIDE if damage != "wrong closer"])
def test_each_kind_of_damage_alone_is_mostly_repaired_in_plain_data(damage):
    """A reader that rejects everything must not pass."""
    right = 0
    for seed in range(20):
        random, value = Random(seed), PLAIN_VALUES[seed % 2]
        text = damaged(Writer(random, [damage], share=0.9).write(value), [damage], random)
        assert is_harmless(read(text), value, text), text
        right += read(text) is not None
    assert right >= 7


# Texts that were read incorrectly in the past, found with random values.
FOUND = {
    "Use [\u200b[true]]": [[True]],
    "So: { x_y=>[1]}": {"x_y": [1]},
    'So: "[\\n{ \\"a\\": 1}, 2]"': [{"a": 1}, 2],
    '［ "x y"， ｛},［""\n,1 ］\n］': ["x y", {}, ["", 1]],
    "{'a': 'b'， k=>'c'}": {"a": "b", "k": "c"},
    '{"a": `\'}`, "b": 1}': {"a": "'}", "b": 1},
    '{"a": "\':x"\ufeff,\u200b"b"\ufeff:\u200b"c d"\u200b, "e": "f"}': {
        "a": "':x",
        "b": "c d",
        "e": "f",
    },
    '{"a": 1 b:0}': {"a": 1, "b": 0},
    "[1  `b`]": [1, "b"],
    "[2 \ufeff1]": [2, 1],
    "[2 1# c\n]": [2, 1],
    "[[], 0\\n]": [[], 0],
}


@for_each("text, value", FOUND.items())
def test_texts_that_were_read_incorrectly_in_the_past_are_read_correctly(text, value):
    assert is_harmless(read(text), value, text), read(text)


PIECES = [
    *MARKS,
    "\ufeff",
    "```json\n",
    *listed("""null, "a", "a":, key:, 'a', <tool_call>, </tool_call>"""),
]
TEXT = st.text() | st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


@random_examples(60, 600, TEXT)
def test_any_text_raises_only_extraction_errors_and_every_span_is_correct(text):
    found, broken = find_json(text)
    assert read(text) in [None, *found]
    for extraction in found:
        json.dumps(extraction.value, allow_nan=False)
        assert 0 <= extraction.start < extraction.end <= len(text)
        if not extraction.repairs:
            assert extraction.complete
            assert same(
                read_strictly(text[extraction.start : extraction.end], 0),
                [extraction.value, extraction.end - extraction.start],
            )
    assert all(
        earlier.end <= later.start or earlier.start == later.start
        for earlier, later in pairwise(found)
    )
    assert all(0 <= invalid.start <= invalid.position <= len(text) for invalid in broken)


@random_examples(
    20, 200, TEXT, st.sampled_from([None, SCHEMA, True, False]), st.booleans(), st.booleans()
)
def test_a_controller_returns_a_result_for_any_text(text, schema, truncated, coerce):
    result = OutputController().parse_and_validate(text, schema, truncated=truncated, coerce=coerce)
    assert result.success == (not result.errors)
    assert result.raw == text
