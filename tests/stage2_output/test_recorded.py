"""Recorded texts of real models, from the external data of the project, and the share read correctly."""

from collections import Counter
from typing import Any, NamedTuple

import pytest

from stage2_output import Extraction, ExtractionError, extract_json

WRONG = ("wrong", "false_positive")
NOT_WHOLE = {"truncated", "ellipsis", "other_malformed"}


class Judged(NamedTuple):
    """A recorded text, the value that was read (None for an error), and the verdict on it."""

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
    chosen = [reply for reply in judged if kind in reply.row["kind"]]
    assert chosen
    return chosen


def of_tier(judged, tier):
    chosen = [reply for reply in judged if reply.row["tier"] == tier]
    assert chosen
    return chosen


def share(judged, *verdicts):
    return sum(reply.verdict in verdicts for reply in judged) / len(judged)


def names(judged):
    return [reply.row["id"] for reply in judged]


def test_valid_json_is_returned_without_repairs(judged):
    assert names(reply for reply in of_kind(judged, "valid") if is_changed(reply)) == []


def is_changed(reply):
    if reply.verdict != "pass" or reply.found is None:
        return True
    found, bare = reply.found, reply.row["raw"].strip()
    as_written = reply.row["raw"][found.start : found.end] == bare
    return (found.repairs, found.complete, found.source, as_written) != ((), True, "bare", True)


def test_every_text_without_json_is_an_error(judged):
    assert names(reply for reply in of_tier(judged, "negative") if reply.found is not None) == []


def test_at_least_99_percent_of_texts_with_common_damage_are_read_correctly(judged):
    assert share(of_tier(judged, "core"), "pass") >= 0.99


def test_at_least_88_percent_of_texts_with_rare_damage_are_read_correctly(judged):
    assert share(of_tier(judged, "hard"), "pass") >= 0.88


def test_at_most_half_a_percent_of_texts_give_a_wrong_value(judged, say):
    tiers = {tier: share(of_tier(judged, tier), "pass") for tier in ("core", "hard", "negative")}
    right = ", ".join(f"{tier} {part:.1%} right" for tier, part in tiers.items())
    say(
        f"output.jsonl: {len(judged)} texts, "
        f"{dict(Counter(reply.verdict for reply in judged))}; {right}"
    )
    assert share(judged, *WRONG) <= 0.005, names(
        reply for reply in judged if reply.verdict in WRONG
    )


def test_no_truncated_text_gives_a_complete_value(judged):
    cut = of_kind(judged, "truncated")
    assert names(reply for reply in cut if reply.found is not None and reply.found.complete) == []
    assert any(reply.found is not None for reply in cut)


def test_at_most_one_percent_of_complete_values_are_marked_incomplete(judged):
    whole = [reply for reply in of_tier(judged, "core") if not NOT_WHOLE & {*reply.row["kind"]}]
    assert (
        len(names(reply for reply in whole if reply.found and not reply.found.complete))
        <= len(whole) / 100
    )
