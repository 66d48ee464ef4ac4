"""Replies in many languages: a quoted decision never runs a tool, and a genuine one is always read.

The texts were written for this project; `corpus/README.md` describes them.
"""

import json
from pathlib import Path

from stage2_output import OutputController
from stage3_tools import ToolDecision, parse_tool_decision, parse_tool_decisions

CORPUS = Path(__file__).parent / "corpus"
READ = OutputController()


def entries(name):
    lines = (CORPUS / name).read_text(encoding="utf-8").splitlines()
    return [*map(json.loads, lines)]


def test_a_refusal_a_quotation_or_a_summary_is_never_a_decision():
    read = {entry["id"]: entry["text"] for entry in entries("mentions.jsonl")}
    assert [name for name, text in read.items() if parse(text)] == []
    lists = [
        name for name, text in read.items() if isinstance(parse_tool_decisions(READ, text), tuple)
    ]
    assert lists == []


def test_a_genuine_decision_is_read_as_intended():
    for entry in entries("decisions.jsonl"):
        read = parse_tool_decision(READ, entry["text"])
        decision = ToolDecision(entry["tool"], entry.get("arguments", {}), entry.get("reply"))
        assert read == decision, entry["id"]


def test_each_corpus_has_at_least_200_replies_in_12_languages():
    for name in ("mentions.jsonl", "decisions.jsonl"):
        values = entries(name)
        assert len({each["text"] for each in values}) == len(values) >= 200
        assert len({each["language"] for each in values}) >= 12


def test_a_third_of_the_genuine_writes_stand_beside_other_text():
    writes = {"delete_file", "run_shell", "save_note", "send_email", "transfer_money"}
    texts = [entry["text"] for entry in entries("decisions.jsonl") if entry["tool"] in writes]
    alone = [text for text in texts if parse(text, whole=True)]
    assert (len(texts), len(texts) - len(alone)) == (110, 33)  # as lesson 4 states


def parse(text, **options):
    return isinstance(parse_tool_decision(READ, text, **options), ToolDecision)
