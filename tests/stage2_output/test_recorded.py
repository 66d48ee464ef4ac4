"""Texts as models really wrote them, from the project's outside data."""

import sys
from collections import Counter

import pytest

from stage2_output import ExtractionError, extract_json


@pytest.fixture(scope="module")
def judged(recorded):
    """(row, what was extracted or None, pass | refused | wrong | false_positive) for every row."""
    rows, harness = recorded("output.jsonl")
    found = []
    for row in rows:
        try:
            extraction = extract_json(row["raw"], truncated="truncated" in row["kind"])
        except ExtractionError:
            extraction = None
        value = extraction and extraction.value
        found.append((row, extraction, harness.diff_output(row, value, extraction is None)))
    return found


def test_no_recorded_text_gives_a_wrong_value(judged, capsys):
    verdicts = Counter(verdict for _, _, verdict in judged)
    with capsys.disabled():
        sys.stdout.write(f"\noutput.jsonl: {len(judged)} rows checked, {dict(verdicts)}\n")
    assert judged
    wrong = [row["id"] for row, _, verdict in judged if verdict not in ("pass", "refused")]
    assert wrong == []


def test_valid_json_passes_untouched(judged):
    valid = [each for each in judged if "valid" in each[0]["kind"]]
    assert valid
    touched = [
        row["id"]
        for row, found, verdict in valid
        if verdict != "pass" or found.repairs or not found.complete or found.source != "bare"
    ]
    assert touched == []


def test_every_negative_text_is_an_error(judged):
    negative = [each for each in judged if each[0]["tier"] == "negative"]
    assert negative
    assert [row["id"] for row, found, verdict in negative if found or verdict != "pass"] == []
