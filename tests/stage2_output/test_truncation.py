"""Truncated replies: never complete, and always the beginning of the intended value."""

import json
from itertools import cycle

import pytest
from hypothesis import strategies as st

from stage2_output import OutputController
from tests.random_values import json_values, random_examples
from tests.stage2_output.schemas import OBJECT, STRING
from tests.stage2_output.texts import SPELLINGS, read, same

DECISION = {
    "type": "object",
    "properties": {"tool": STRING, "arguments": OBJECT},
    "required": ["tool"],
}
BEFORE = {
    "nothing": "",
    "a fence": "```json\n",
    "words and a fence": "I will call the tool:\n\n```\n",
    "thinking": "<think>I need a tool.</think>\n",
    "thinking with a draft": '<think>Maybe {"tool": "x", "arguments": {}}?</think>\n',
    "a tag": "<tool_call>\n",
    "words": "Sure, here it is: ",
}
MOST_CHARACTERS = 300


@pytest.fixture(scope="module")
def decisions(recorded):
    """Tool decisions of recorded calls: 100 short ones, with all that are not ASCII, and 6 long ones."""
    rows, _ = recorded("tools.jsonl")
    calls = [row["valid_calls"][0] for row in rows if row["valid_calls"]]
    meant = [{"tool": call["name"], "arguments": call["arguments"]} for call in calls]
    short = [decision for decision in meant if len(json.dumps(decision)) <= MOST_CHARACTERS]
    foreign = [decision for decision in short if not is_ascii(decision)]
    plain = [decision for decision in short if is_ascii(decision)]
    long = [decision for decision in meant if decision not in short]
    chosen = foreign + spread(plain, 100 - len(foreign)) + spread(long, 6)
    assert (len(chosen), bool(foreign)) == (106, True)
    return chosen


def is_ascii(value):
    return json.dumps(value, ensure_ascii=False).isascii()


def spread(values, count):
    return [values[index * len(values) // count] for index in range(count)]


def spelled(decisions):
    """Every decision in one of the spellings in turn; those that are not ASCII in all of them."""
    spellings = cycle(SPELLINGS.values())
    for decision in decisions:
        for _ in range(1 if is_ascii(decision) else len(SPELLINGS)):
            yield decision, json.dumps(decision, **next(spellings))


def is_harmless(found, whole):
    """Whether a result is an error, or incomplete and the beginning of the intended value."""
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


@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.long)])
def test_no_truncated_decision_is_complete_has_other_arguments_or_fits(every, decisions, say):
    controller, cuts, errors = OutputController(), 0, 0
    texts = [*zip(spelled(decisions[::every]), cycle(BEFORE.values()), strict=False)]
    assert len(texts) > len(BEFORE)
    for (decision, text), before in texts:
        for end in range(1, len(text)):
            cut = before + text[:end]
            found = read(cut)
            assert is_harmless(found, decision), (cut, found)
            assert not controller.parse_and_validate(cut, DECISION).success, cut
            cuts, errors = cuts + 1, errors + (found is None)
        whole = controller.parse_and_validate(before + text, DECISION)
        assert (whole.data, whole.extraction.repairs) == (decision, ())
    say(f"tools.jsonl: {len(texts)} decisions cut at {cuts} places, {cuts - errors} read in part")
    assert errors <= 0.01 * cuts


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
def test_a_decision_that_is_truncated_inside_a_character_is_not_complete(every, decisions):
    foreign = [decision for decision in decisions if not is_ascii(decision)]
    for decision in foreign[::every]:
        written = json.dumps(decision, ensure_ascii=False).encode()
        for end in range(1, len(written)):
            assert is_harmless(read(written[:end].decode(errors="ignore")), decision)
            # "replace" adds a replacement character at the end.
            found = read(written[:end].decode(errors="replace"))
            assert found is None or not found.complete, written[:end]


HOSTILE = st.text("ab1 \\\"',:{}[]\n`<>/#“é中😀", max_size=8) | st.text(max_size=4)
VALUES = json_values(HOSTILE)
CONTAINERS = st.lists(VALUES, max_size=4) | st.dictionaries(HOSTILE, VALUES, max_size=4)


@random_examples(
    8, 100, CONTAINERS, st.sampled_from([*SPELLINGS.values()]), st.sampled_from([*BEFORE.values()])
)
def test_no_truncated_object_or_list_is_complete_or_gives_another_value(value, spelling, before):
    text = json.dumps(value, **spelling)
    for end in range(1, len(text)):
        found = read(before + text[:end])
        assert is_harmless(found, value), (before + text[:end], found)
