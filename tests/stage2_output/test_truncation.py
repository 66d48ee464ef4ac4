"""Truncated replies: never complete, and always the beginning of the intended value."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage2_output import Extraction, ExtractionError, OutputController, extract_json

DECISION = {
    "type": "object",
    "properties": {"tool": {"type": "string"}, "arguments": {"type": "object"}},
    "required": ["tool"],
}
SPELLINGS = {
    "the default of Python": {},
    "compact": {"separators": (",", ":")},
    "indented": {"indent": 2},
    "not escaped": {"ensure_ascii": False},
    "indented, not escaped": {"indent": 4, "ensure_ascii": False},
}
FRAMES = {
    "in a fence": "```json\n",
    "in a fence after words": "I will call the tool:\n\n```\n",
    "after thinking": "<think>I need a tool.</think>\n",
    "after thinking with a draft": '<think>Maybe {"tool": "x", "arguments": {}}?</think>\n',
    "after a tag": "<tool_call>\n",
    "after words": "Sure, here it is: ",
}
MOST_CHARACTERS = 300


@pytest.fixture(scope="module")
def decisions(recorded):
    """Tool decisions of recorded calls: 100 short ones, with all that are not ASCII, and 6 long ones."""
    rows, _ = recorded("tools.jsonl")
    calls = [row["valid_calls"][0] for row in rows if row["valid_calls"]]
    meant = [{"tool": call["name"], "arguments": call["arguments"]} for call in calls]
    short = [each for each in meant if len(json.dumps(each)) <= MOST_CHARACTERS]
    foreign = [each for each in short if not json.dumps(each, ensure_ascii=False).isascii()]
    plain = [each for each in short if each not in foreign]
    long = [each for each in meant if each not in short]
    chosen = foreign + spread(plain, 100 - len(foreign)) + spread(long, 6)
    assert (len(chosen), bool(foreign)) == (106, True)
    return chosen


def spread(values, count):
    return [values[index * len(values) // count] for index in range(count)]


def spelled(decisions):
    """Every decision in one of the spellings in turn; those that are not ASCII in all of them."""
    ways = [*SPELLINGS.values()]
    for number, decision in enumerate(decisions):
        is_ascii = json.dumps(decision, ensure_ascii=False).isascii()
        for way in [ways[number % len(ways)]] if is_ascii else ways:
            yield decision, json.dumps(decision, **way)


def read(text):
    """The extraction from a text, or None for an error."""
    try:
        return extract_json(text)
    except ExtractionError:
        return None


def is_harmless(found: Extraction | None, whole):
    return found is None or (
        not found.complete and bool(found.repairs) and begins(found.value, whole)
    )


def begins(part, whole):
    """Whether a value is the beginning of another: only its last element may be shorter."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return [*part] == [*whole][: len(part)] and begins([*part.values()], [*whole.values()])
    if isinstance(part, list) and isinstance(whole, list):
        if not part:
            return True
        last = len(part) - 1
        return (
            last < len(whole)
            and same(part[:last], whole[:last])
            and begins(part[last], whole[last])
        )
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    return same(part, whole) or (is_number(part) and is_number(whole) and part in numbers_of(whole))


def same(one, other):
    return json.dumps(one) == json.dumps(other)  # distinguishes 1, True and 1.0


def is_number(value):
    return type(value) in (int, float)


def numbers_of(number):
    """The values of the beginnings of a number."""
    digits = json.dumps(number)
    for end in range(1, len(digits) + 1):
        try:
            yield json.loads(digits[:end].removesuffix("-").removesuffix("+").rstrip("e."))
        except ValueError:
            continue


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
def test_no_truncated_decision_is_complete_or_has_other_arguments(every, decisions, say):
    cuts = read_at_all = 0
    for decision, text in spelled(decisions[::every]):
        for end in range(1, len(text)):
            found = read(text[:end])
            assert is_harmless(found, decision), (text[:end], found)
            cuts, read_at_all = cuts + 1, read_at_all + (found is not None)
        assert read(text) == Extraction(decision, 0, len(text), "bare")
    say(
        f"tools.jsonl: {len(decisions[::every])} decisions cut at {cuts} places, "
        f"{read_at_all} read as incomplete"
    )
    assert read_at_all >= 0.99 * cuts


def test_no_truncated_decision_fits_the_schema_of_decisions(decisions):
    controller = OutputController()
    for decision, text in spelled(decisions[::4]):
        for end in range(len(text)):
            result = controller.parse_and_validate(text[:end], DECISION)
            assert (result.success, result.data) == (False, None), text[:end]
        assert controller.parse_and_validate(text, DECISION).data == decision


@pytest.mark.parametrize("before", FRAMES.values(), ids=FRAMES)
def test_no_truncated_decision_after_other_text_is_complete_or_fits(decisions, before):
    controller = OutputController()
    for decision, text in spelled(decisions[:1] + decisions[12:100:50] + decisions[-1:]):
        for end in range(1, len(text)):
            cut = before + text[:end]
            found = read(cut)
            assert is_harmless(found, decision), (cut, found)
            assert not controller.parse_and_validate(cut, DECISION).success, cut
        assert controller.parse_and_validate(before + text, DECISION).data == decision


def test_a_decision_that_is_truncated_inside_a_character_is_not_complete(decisions):
    foreign = [each for each in decisions if not json.dumps(each, ensure_ascii=False).isascii()]
    for decision in foreign:
        written = json.dumps(decision, ensure_ascii=False).encode()
        for end in range(1, len(written)):
            assert is_harmless(read(written[:end].decode(errors="ignore")), decision)
            # "replace" adds a replacement character at the end.
            found = read(written[:end].decode(errors="replace"))
            assert found is None or not found.complete, written[:end]


HOSTILE = st.text("ab1 \\\"',:{}[]\n`<>/#“é中😀", max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | HOSTILE
    | st.text(max_size=4)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(HOSTILE, inner, max_size=4),
    max_leaves=12,
)
CONTAINERS = st.lists(VALUES, max_size=4) | st.dictionaries(HOSTILE, VALUES, max_size=4)


@given(CONTAINERS, st.sampled_from([*SPELLINGS.values()]), st.sampled_from(["", *FRAMES.values()]))
def test_no_truncated_object_or_list_is_complete_or_gives_another_value(value, spelling, before):
    text = json.dumps(value, **spelling)
    for end in range(1, len(text)):
        found = read(before + text[:end])
        assert is_harmless(found, value), (before + text[:end], found)
