"""Replies in many languages: a write runs only if it is the whole reply.

The texts were written for this project; `corpus/README.md` describes them.
"""

import json
import re
from collections import Counter
from pathlib import Path

from stage0_gateway import ChatResponse, Message
from stage3_tools import FinalReply, InvalidReply, PromptDialect, Tool, ToolCalls, ToolRegistry
from tests.tables import for_each

CORPUS = Path(__file__).parent / "corpus"
LONGEST = 500  # characters of a decision that feedback repeats
POSITIONAL = {
    "write after prose",
    "write, fenced after prose",
    "write in a call tag after prose",
    "list with a write after prose",
}
AFTER_PROSE = {"read after prose", "read, fenced after prose", "idempotent after prose"}


def tool(name, effect, required=(), **types):
    properties = {key: {"type": value} for key, value in types.items()}
    schema = {"type": "object", "properties": properties, "required": list(required)}
    schema["additionalProperties"] = False
    return Tool(name, f"Run {name}.", schema, lambda arguments: "done", effect=effect)


TOOLS = ToolRegistry(
    tool("delete_file", "write", ["path"], path="string"),
    tool("delete_logs", "write", folder="string", older_than_days="integer"),
    tool("run_shell", "write", ["command"], command="string"),
    tool(
        "send_email",
        "write",
        ["to", "subject", "body"],
        to="string",
        subject="string",
        body="string",
    ),
    tool("transfer_money", "write", ["iban", "amount"], iban="string", amount="number"),
    tool("save_note", "idempotent", ["title", "text"], title="string", text="string"),
    tool("get_time", "read"),
    tool("get_weather", "read", ["city"], city="string", unit="string"),
    tool("list_files", "read", folder="string", limit="integer"),
    tool("search", "read", ["query"], query="string", limit="integer"),
)


def values(name):
    lines = (CORPUS / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


QUOTED, GENUINE = values("quoted_writes.jsonl"), values("genuine_calls.jsonl")


def for_entries(entries):
    """Run a test for each entry, and report all entries that fail."""
    listed = [*entries]

    def decorate(test):
        def run():
            assert listed
            failed = {}
            for entry in listed:
                try:
                    test(entry)
                except AssertionError as error:
                    failed[entry["id"]] = str(error)
            assert failed == {}

        run.__name__ = test.__name__
        return run

    return decorate


def read(entry, **options):
    dialect = PromptDialect(multiple=entry.get("multiple", False), **options)
    response = ChatResponse(Message.assistant(entry["text"]), finish_reason="stop")
    return dialect.read(response, TOOLS)


def expected_calls(entry):
    if "calls" in entry:
        return [(call["tool"], call["arguments"]) for call in entry["calls"]]
    return [(entry["tool"], entry["arguments"])]


def names_a_call(entry):
    """Return whether feedback is due although the reply contains a valid call."""
    return entry["expected"] == "feedback" and ("arguments" in entry or "calls" in entry)


def assert_runs(entry, interpretation):
    assert isinstance(interpretation, ToolCalls)
    message = interpretation.message
    calls = [(call.name, json.loads(call.arguments)) for call in message.tool_calls]
    assert (calls, message.text) == (expected_calls(entry), entry.get("reply", ""))


def squeezed(text):
    """Return the text without white space, so that the layout of JSON does not matter."""
    return re.sub(r"\s", "", text)


@for_entries(QUOTED)
def test_a_write_beside_other_text_never_runs(entry):
    assert not isinstance(read(entry), ToolCalls)
    assert not isinstance(read(entry, strict="always"), ToolCalls)


@for_entries(entry for entry in GENUINE if entry["expected"] == "runs")
def test_a_genuine_call_runs_with_its_arguments(entry):
    assert_runs(entry, read(entry))


@for_entries(entry for entry in GENUINE if entry["expected"] == "reply")
def test_a_final_answer_is_read_as_written(entry):
    interpretation = read(entry)
    assert isinstance(interpretation, FinalReply)
    assert interpretation.text == entry["reply"]


@for_entries(entry for entry in GENUINE if entry["expected"] == "feedback")
def test_a_call_that_is_not_clear_leads_to_feedback(entry):
    assert isinstance(read(entry), InvalidReply)


@for_entries(filter(names_a_call, GENUINE))
def test_feedback_for_a_write_beside_other_text_repeats_it_and_asks_for_it_alone(entry):
    feedback = read(entry).feedback
    calls = [{"tool": name, "arguments": rest} for name, rest in expected_calls(entry)]
    decision = json.dumps(calls if "calls" in entry else calls[0], ensure_ascii=False)
    assert squeezed(decision[: LONGEST - 20]) in squeezed(feedback)
    assert (squeezed(decision) in squeezed(feedback)) == (len(decision) <= LONGEST)
    assert re.search(r"\balone\b|\bnothing else\b|\bonly\b", feedback)


@for_entries(
    entry for entry in GENUINE if "argument" in entry["form"] and entry["expected"] == "feedback"
)
def test_feedback_for_arguments_under_another_key_names_the_right_key(entry):
    assert "arguments" in read(entry).feedback


@for_entries(entry for entry in GENUINE if entry.get("thinking_opened"))
def test_a_stated_thinking_block_ends_at_the_first_closing_tag(entry):
    assert_runs(entry, read(entry, thinking_opened=True))


@for_entries(entry for entry in GENUINE if entry["form"] in POSITIONAL)
def test_a_write_after_prose_runs_if_no_call_must_be_the_whole_reply(entry):
    assert_runs(entry, read(entry, strict="never"))


@for_entries(entry for entry in GENUINE if entry["form"] in AFTER_PROSE)
def test_a_read_after_prose_leads_to_feedback_if_every_call_must_be_the_whole_reply(entry):
    assert isinstance(read(entry, strict="always"), InvalidReply)


@for_each("entries, replies, forms", [(QUOTED, 600, 60), (GENUINE, 500, 60)])
def test_each_corpus_has_many_distinct_replies_and_forms_in_many_languages(entries, replies, forms):
    assert len({entry["text"] for entry in entries}) == len(entries) >= replies
    assert len({entry["id"] for entry in entries}) == len(entries)
    assert len({entry["form"] for entry in entries}) >= forms
    languages = Counter(entry["language"] for entry in entries)
    assert sum(count >= 20 for count in languages.values()) >= 12


def test_each_quoted_reply_contains_a_call_of_a_write():
    writes = {tool.name for tool in TOOLS if tool.effect == "write"}
    named = re.compile(rf"({'|'.join(writes)})\\?\"")
    assert [entry["id"] for entry in QUOTED if not named.search(entry["text"])] == []


def test_each_genuine_reply_states_the_effect_of_its_tool():
    effects = {tool.name: tool.effect for tool in TOOLS}
    for entry in GENUINE:
        names = [call["tool"] for call in entry["calls"]] if "calls" in entry else [entry["tool"]]
        stated = [name if name is None else effects.get(name, "unknown") for name in names]
        assert entry["effect"] == ("write" if "write" in stated else stated[0]), entry["id"]
