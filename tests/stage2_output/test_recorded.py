"""Texts as models really wrote them, from the project's outside data, and how many of them are read
right."""

from collections import Counter
from typing import Any, NamedTuple

import pytest

from stage2_output import Extraction, ExtractionError, extract_json

WRONG = ("wrong", "false_positive")
NOT_WHOLE = {"truncated", "ellipsis", "other_malformed"}


class Judged(NamedTuple):
    """A recorded text, what was read from it (None for an error), and whether that is right."""

    row: dict[str, Any]
    found: Extraction | None
    verdict: str


@pytest.fixture(scope="module")
def judged(recorded):
    rows, harness = recorded("output.jsonl")
    assert rows
    return [judge(row, harness) for row in rows]


def judge(row, harness):
    try:
        found = extract_json(row["raw"])
    except ExtractionError:
        return Judged(row, None, harness.diff_output(row, None, True))
    return Judged(row, found, harness.diff_output(row, found.value, False))


def of_kind(judged, kind):
    chosen = [each for each in judged if kind in each.row["kind"]]
    assert chosen
    return chosen


def of_tier(judged, tier):
    chosen = [each for each in judged if each.row["tier"] == tier]
    assert chosen
    return chosen


def share(judged, *verdicts):
    return sum(each.verdict in verdicts for each in judged) / len(judged)


def names(judged):
    return [each.row["id"] for each in judged]


def test_valid_json_comes_back_untouched(judged):
    assert names(each for each in of_kind(judged, "valid") if is_touched(each)) == []


def is_touched(each):
    if each.verdict != "pass" or each.found is None:
        return True
    found, bare = each.found, each.row["raw"].strip()
    as_written = each.row["raw"][found.start : found.end] == bare
    return (found.repairs, found.complete, found.source, as_written) != ((), True, "bare", True)


def test_every_text_that_holds_no_json_is_an_error(judged):
    assert names(each for each in of_tier(judged, "negative") if each.found is not None) == []


def test_nearly_every_text_as_models_usually_damage_it_is_read_right(judged):
    assert share(of_tier(judged, "core"), "pass") >= 0.99


def test_most_of_the_texts_with_rare_damages_are_read_right(judged):
    assert share(of_tier(judged, "hard"), "pass") >= 0.88


def test_hardly_any_text_gives_a_value_that_was_not_meant(judged, say):
    tiers = {tier: share(of_tier(judged, tier), "pass") for tier in ("core", "hard", "negative")}
    right = ", ".join(f"{tier} {part:.1%} right" for tier, part in tiers.items())
    say(
        f"output.jsonl: {len(judged)} texts, "
        f"{dict(Counter(each.verdict for each in judged))}; {right}"
    )
    assert share(judged, *WRONG) <= 0.005, names(each for each in judged if each.verdict in WRONG)


def test_no_text_that_was_cut_off_comes_out_as_complete(judged):
    cut = of_kind(judged, "truncated")
    assert names(each for each in cut if each.found is not None and each.found.complete) == []
    assert any(each.found is not None for each in cut)


def test_a_whole_value_is_hardly_ever_called_incomplete(judged):
    whole = [each for each in of_tier(judged, "core") if not NOT_WHOLE & {*each.row["kind"]}]
    assert (
        len(names(each for each in whole if each.found and not each.found.complete))
        <= len(whole) / 100
    )
