"""The data of the page: for every kind of run, every prefix of a file, and hostile texts."""

import json
import re

import pytest

from stage0_gateway import ChatResponse, ImagePart, JsonPart, Message, TextPart, ToolCall, Usage
from stage1_context import DropOldest
from stage3_tools import Later, NativeDialect, Reject, RunFile, Tool, ToolOutput, read_runs
from stage3_tools.trace.page.html import file_data, render_page, write_page
from stage3_tools.trace.page.view import page_data, utf16_index

HOSTILE = "<script>alert(1)</script></script><!-- {{data}} {{script}} \u2028 \ud83d \u202e &lt;"


def call(name="f", **arguments):
    return json.dumps({"tool": name, "arguments": arguments})


def answer(text="done"):
    return json.dumps({"tool": None, "reply": text})


def requests_of(data):
    """The messages of each request, as the script of the page rebuilds them."""
    found, before = [], []
    for turn in data["turns"]:
        now = []
        for each in turn["request"]["messages"]:
            now += before[each[0] : each[1]] if isinstance(each, list) else [each]
        found.append([data["messages"][index]["text"] for index in now])
        before = now
    return found


def texts_of(runs):
    return [
        [each.text for each in turn.request.messages] if turn.request else []
        for run in runs
        for turn in run.turns
    ]


@pytest.fixture
def data(run_file):
    """Return the data of the page of the file, which rebuilds the same requests."""

    def make():
        found = file_data(run_file.path)
        assert json.loads(json.dumps(found)) == found
        assert requests_of(found) == texts_of(read_runs(run_file.path))
        return found

    return make


async def test_the_requests_are_rebuilt_from_their_differences(traced, data, new_recorder):
    await traced([call(), "no", call(n=1), answer()], new_recorder().tool)
    turns = data()["turns"]
    assert turns[1]["request"]["messages"][0] == [0, 2]
    assert [turn["decision"]["kind"] for turn in turns] == ["calls", "feedback", "calls", "reply"]


async def test_dropped_messages_have_their_reason_and_are_not_stored_twice(
    run_file, new_conversation, new_recorder, data
):
    replies = [*(call(n=n) for n in range(4)), answer()]
    conversation = new_conversation(replies, new_recorder().tool, window=DropOldest(max_messages=4))
    await conversation.ask(trace=run_file)
    found = data()
    before, turn = requests_of(found)[2], found["turns"][3]
    dropped = turn["request"]["dropped"]
    assert {each["reason"] for each in dropped} == {"too many messages: 2 more, 1 left"}
    assert {found["messages"][each["message"]]["text"] for each in dropped} <= set(before)
    texts = [json.dumps(each) for each in found["messages"]]
    assert len(texts) == len(set(texts))


async def test_a_call_has_its_approval_retries_and_details(traced, data):
    tool = Tool("f", execute=lambda arguments: ToolOutput("ok", details={"rows": 3}))
    await traced([call(), answer()], tool, approve=lambda request: True)
    (made,) = data()["turns"][0]["calls"]
    assert (made["approval"], made["details"], made["status"]) == (
        "call approve",
        {"rows": 3},
        "completed",
    )


async def test_a_rejection_a_deferral_and_a_resumed_call_are_shown(
    run_file, new_conversation, new_recorder, data
):
    conversation = new_conversation([call(), answer()], new_recorder(effect="write").tool)
    await conversation.ask(trace=run_file, approve=lambda request: Later())
    await conversation.ask(
        None, resume=True, trace=run_file, approve=lambda request: Reject("Keep it.")
    )
    found = data()
    assert [turn["number"] for turn in found["turns"]] == [1, 0, 1]
    assert [run["status"] for run in found["runs"]] == ["awaiting_approval", "completed"]
    assert found["turns"][1]["calls"][0]["approval"] == "call reject Keep it."


async def test_parts_of_messages_are_shown_as_text(traced, data):
    image = ImagePart("aGk=", "image/png")
    output = (TextPart("A picture."), image, JsonPart({"a": 1}))
    await traced([call(), answer()], Tool("f", execute=lambda arguments: output, effect="read"))
    found = [message for message in data()["messages"] if message["parts"]]
    kinds = [part["kind"] for message in found for part in message["parts"]]
    assert set(kinds) <= {"image", "json"}


async def test_a_parallel_call_begins_when_it_was_announced(traced, data, new_recorder):
    asked = Message.assistant("", [ToolCall(f"call_{n}", "f") for n in range(3)])
    await traced([asked, "done"], new_recorder().tool, dialect=NativeDialect())
    made = data()["turns"][0]["calls"]
    assert len(made) == 3
    assert all(each["start"] <= each["start"] + each["seconds"] for each in made)


async def test_several_runs_that_overlap_are_shown_one_after_the_other(
    run_file, new_conversation, new_recorder, data
):
    inner = new_conversation([answer("inner")])

    async def ask(arguments):
        await inner.ask("Inner?", trace=run_file)
        return "ok"

    outer = new_conversation([call(), answer("outer")], Tool("f", execute=ask))
    await outer.ask("Outer?", trace=run_file)
    found = data()
    assert [run["question"] for run in found["runs"]] == ["Outer?", "Inner?"]
    assert [turn["run"] for turn in found["turns"]] == [0, 0, 1]
    assert [run["reply"] for run in found["runs"]] == ["outer", "inner"]


async def test_every_prefix_of_a_file_can_be_inspected(traced, run_file, tmp_path, new_recorder):
    await traced([call(), "no", call("h"), answer()], new_recorder().tool)
    content, path = run_file.path.read_bytes(), tmp_path / "prefix.jsonl"
    ends = [each.end() for each in re.finditer(b"\n", content)]
    for end in sorted({0, *ends, *(end - 1 for end in ends), *range(0, len(content), 97)}):
        path.write_bytes(content[:end])
        write_page(path, tmp_path / "prefix.html")
    path.write_bytes(content[:-10])
    assert file_data(path)["problems"] == ["The run has not ended, or it was killed."]
    path.write_bytes(b"")
    assert file_data(path)["problems"] == ["The file contains no run yet."]


@pytest.mark.parametrize("dialect", [None, NativeDialect()])
async def test_hostile_texts_cannot_end_the_data(run_file, new_conversation, dialect):
    asked = call(text=HOSTILE)
    if dialect:
        asked = Message.assistant("", [ToolCall("call_1", "f", json.dumps({"text": HOSTILE}))])
    tool = Tool("f", HOSTILE, execute=lambda arguments: HOSTILE, effect="read")
    conversation = new_conversation([asked, HOSTILE if dialect else answer(HOSTILE)], tool)
    await conversation.ask(HOSTILE, trace=run_file, dialect=dialect)
    page = render_page(file_data(run_file.path))
    page.encode()
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    shown = re.search(r'type="application/json">(.*?)</script>', page, re.DOTALL)[1]
    assert shown.isascii()
    assert json.loads(shown)["runs"][0]["question"] == HOSTILE


async def test_a_result_of_a_megabyte_is_stored_at_most_three_times(traced, run_file, tmp_path):
    tool = Tool("f", execute=lambda arguments: "x" * 1_000_000, effect="read")
    await traced([call(), answer()], tool, variables_over=None)
    page = tmp_path / "run.html"
    write_page(run_file.path, page)
    assert page.stat().st_size < 150_000 + 3 * run_file.path.stat().st_size


async def test_the_page_without_data_has_at_most_150_kb():
    assert len(render_page(page_data([], "run.jsonl")).encode()) < 150_000


async def test_the_page_of_a_long_run_does_not_repeat_its_messages(tmp_path, new_conversation):
    replies = [*(call(n=n) for n in range(60)), answer()]
    tool = Tool("f", execute=lambda arguments: f"result {arguments['n']}", effect="read")
    file = RunFile(tmp_path / "run.jsonl")
    await new_conversation(replies, tool).ask(trace=file, max_tool_rounds=None)
    page = render_page(file_data(file.path))
    assert page.count('result 7"') <= 3


@pytest.mark.parametrize(
    ("text", "index", "expected"), [("ab", 1, 1), ("é€b", 2, 2), ("🐒b", 1, 2), ("\ud83db", 1, 1)]
)
def test_indexes_count_utf16_units(text, index, expected):
    assert utf16_index(text, index) == expected


async def test_marks_count_utf16_units(traced, data, new_recorder):
    text = f"🐒\n```json\n{call()[:-1]},}}\n```"
    await traced([text, answer()], new_recorder().tool)
    decision = data()["turns"][0]["decision"]
    raw = text.encode("utf-16-le")
    assert raw[2 * decision["start"] :][:2].decode("utf-16-le") == "{"
    (repair,) = decision["repairs"]
    assert raw[2 * repair["start"] : 2 * repair["end"]].decode("utf-16-le") == ","


async def test_a_killed_run_shows_its_tokens_so_far(run_file, traced, data):
    costs = {"finish_reason": "stop", "usage": Usage(100, 7)}
    replies = [ChatResponse(Message.assistant(text), **costs) for text in (call(), answer())]
    await traced(replies, Tool("f", "Do.", None, lambda arguments: "1", effect="read"))
    lines = run_file.path.read_bytes().splitlines(keepends=True)
    run_file.path.write_bytes(b"".join(lines[:-1]))
    run = data()["runs"][0]
    assert run["status"] == ""
    assert (run["usage"]["input_tokens"], run["usage"]["output_tokens"]) == (200, 14)


async def test_the_facts_about_a_run_are_its_id_options_and_versions(traced, data):
    await traced([answer()], max_tool_rounds=3)
    facts = data()["runs"][0]["facts"]
    assert facts["run"]
    assert facts["max tool rounds"] == 3
    assert "forked from" not in facts
    assert "python" in facts


async def test_the_text_of_a_refusal_is_shown(traced, data):
    refused = {"finish_reason": "refusal", "refusal": "I will not."}
    await traced([ChatResponse(Message.assistant(""), **refused)])
    assert data()["turns"][0]["reply"]["refusal"] == "I will not."
