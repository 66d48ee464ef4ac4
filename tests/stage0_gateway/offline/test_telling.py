import json

import pytest

from stage0_gateway.offline.outcomes import Outcome
from stage0_gateway.offline.telling import plain, tell


def test_a_result_is_told_as_pairs_without_the_arguments_again() -> None:
    outcome = Outcome(
        "get_weather", {"city": "Shanghai"}, '{"city": "Shanghai", "temp_c": 22, "rain": false}'
    )
    assert tell([outcome]) == "get_weather says for Shanghai: temp c 22, rain no."


def test_every_outcome_gets_a_sentence() -> None:
    outcomes = [
        Outcome("get_time", {}, "12:30"),
        Outcome("read_file", {"path": "a.txt"}, "Error: no such file", True),
        Outcome("add", {"a": 1}, None),
    ]
    assert tell(outcomes) == (
        "get_time says: 12:30. read_file failed for a.txt: no such file. "
        "I gave up on add for 1: no result came back."
    )


def test_a_call_the_host_refused_is_told_with_the_reason() -> None:
    assert tell([Outcome("add", {}, None)], "Unknown tool.") == "I gave up on add: Unknown tool."


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1, 2, 3], "1, 2, 3"),
        ([1, 2, 3, 4, 5, 6, 7], "1, 2, 3, 4, 5 and 2 more"),
        ([], "an empty list"),
        ([{"a": 1}, {"a": None}], "a 1; a none"),
        ({"a": {"b": {"c": {"d": 1}}}}, "a b c 1 fields"),
        (True, "yes"),
        ("x", "x"),
    ],
)
def test_json_values_are_put_in_words(value: object, words: str) -> None:
    assert plain(value) == words


def test_a_long_text_is_cut_and_shows_it() -> None:
    assert tell([Outcome("a", {}, "x" * 5000)]) == f"a says: {'x' * 300} …"
    assert len(tell([Outcome("a", {}, json.dumps({str(n): "y" * 99 for n in range(999)}))])) < 320
