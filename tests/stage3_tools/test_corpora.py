"""Replies in many languages: a quoted decision never runs a tool, and a genuine one is always read.

The texts were written for this project; `corpus/README.md` describes them.
"""

import json
from pathlib import Path

import pytest

from stage2_output import OutputController
from stage3_tools import ToolDecision, parse_tool_decision, parse_tool_decisions

CORPUS = Path(__file__).parent / "corpus"
READ = OutputController()


def entries(name):
    lines = (CORPUS / name).read_text(encoding="utf-8").splitlines()
    return [pytest.param(entry, id=entry["id"]) for entry in map(json.loads, lines)]


@pytest.mark.parametrize("entry", entries("mentions.jsonl"))
def test_a_refusal_a_quotation_or_a_summary_is_never_a_decision(entry):
    assert not isinstance(parse_tool_decision(READ, entry["text"]), ToolDecision)
    assert not isinstance(parse_tool_decisions(READ, entry["text"]), tuple)


@pytest.mark.parametrize("entry", entries("decisions.jsonl"))
def test_a_genuine_decision_is_read_as_intended(entry):
    read = parse_tool_decision(READ, entry["text"])
    assert read == ToolDecision(entry["tool"], entry.get("arguments", {}), entry.get("reply"))


def test_each_corpus_has_at_least_200_replies_in_12_languages():
    for name in ("mentions.jsonl", "decisions.jsonl"):
        values = [param.values[0] for param in entries(name)]
        assert len({each["text"] for each in values}) == len(values) >= 200
        assert len({each["language"] for each in values}) >= 12


def test_a_third_of_the_genuine_writes_stand_beside_other_text():
    writes = {"delete_file", "run_shell", "save_note", "send_email", "transfer_money"}
    texts = [param.values[0] for param in entries("decisions.jsonl")]
    texts = [entry["text"] for entry in texts if entry["tool"] in writes]
    alone = [text for text in texts if parse(text, whole=True)]
    assert (len(texts), len(texts) - len(alone)) == (110, 33)  # as lesson 4 states


def parse(text, **options):
    return isinstance(parse_tool_decision(READ, text, **options), ToolDecision)
