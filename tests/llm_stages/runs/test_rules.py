"""A file of older rules is replayed; a difference names the rules that have changed since."""

from pathlib import Path

import pytest

from llm_stages import read_run
from llm_stages.runs.replay import replay
from llm_stages.runs.rules import RULES, RULES_VERSION, changed_since, rules_behind
from stage2_output import Issue
from tests.llm_stages.cli.command import llm_stages
from tests.llm_stages.runs.run_files import lines_of
from tests.stage3_tools.conversation import answer
from tests.tables import for_each

SUMMARY = "A summary is a user message, not part of the system message."


def older(lines):
    """Remove the version of the rules, which the first files did not have."""
    for line in lines:
        line.pop("rules", None)


def reply_of(text):
    def change(lines):
        for line in lines:
            if line["type"] == "message" and line["message"]["role"] == "assistant":
                line["message"]["content"] = text

    return change


@pytest.fixture
async def old_file(traced, forged):
    await traced([answer()])

    def change(lines):
        older(lines)
        reply_of(answer("another"))(lines)

    return forged(change)


async def test_a_new_file_states_the_version_of_the_rules(traced, run_file):
    run, _ = await traced([answer()])
    assert (
        (lines_of(run_file.path)[0]["rules"], run.rules) == (RULES_VERSION, RULES_VERSION) == (2, 2)
    )


async def test_an_older_file_is_read_and_replayed(traced, forged):
    await traced([answer()])
    run = read_run(forged(older))
    assert run.rules == 1
    assert await replay(run) == []


async def test_a_difference_of_an_older_file_lists_the_rules_that_changed(old_file):
    found = await replay(read_run(old_file))
    assert [each.part for each in found] == ["decision", "end"]
    assert {each.rules for each in found} == {tuple(rule.sentence for rule in RULES)}
    assert str(found[0]).endswith(
        "replayed 'another'. The file follows older rules. Changed rules: "
        + " ".join(rule.sentence for rule in RULES)
    )


async def test_a_difference_of_a_current_file_names_no_rules(traced, forged):
    await traced([answer()])
    found = await replay(read_run(forged(reply_of(answer("another")))))
    assert {each.rules for each in found} == {()}
    assert str(found[0]).endswith("replayed 'another'")


async def test_a_difference_in_a_summary_names_its_rule(traced, forged):
    await traced([answer()])

    def change(lines):
        older(lines)
        system = next(line for line in lines if line["type"] == "message")
        system["message"]["content"] += "\n\nSummary of the conversation before:\nHello."

    (found,) = await replay(read_run(forged(change)))
    assert (found.place, found.rules) == ("message 1", (SUMMARY,))


@pytest.mark.parametrize("name", ["whole_reply", "arguments_key"])
def test_the_rule_of_an_issue_explains_its_feedback(name):
    (rule,) = rules_behind(changed_since(1), issues=[Issue("/tool", "must be alone", name)])
    assert rule.name == name
    other = Issue("/tool", "must be string", "type")
    assert rules_behind(changed_since(1), issues=[other]) == RULES
    assert rules_behind(changed_since(RULES_VERSION), issues=[other]) == ()


def test_the_command_replay_prints_the_rules(old_file, capsys):
    assert llm_stages("replay", old_file) == 1
    assert capsys.readouterr().out.count("The file follows older rules.") == 2


OLDER_FILES = Path(__file__).parent / "older_files"
"""Files of the first version of the rules, as the recorder of that time wrote them."""


@for_each(
    "name, rules",
    [
        ("plain", ()),
        ("summary", ()),  # the messages that the window selected are part of the file
        ("beside", ("A write must be the whole reply.",)),
        ("args", ("Arguments under another key are an issue.",)),
        ("draft", tuple(rule.sentence for rule in RULES)),
    ],
)
async def test_a_file_of_the_first_rules_replays_and_names_the_rule_that_differs(name, rules):
    path = OLDER_FILES / f"{name}.jsonl"
    found = await replay(read_run(path))
    assert {sentence for difference in found for sentence in difference.rules} == {*rules}
    assert bool(found) is bool(rules)
