"""The data of the page: for every kind of run, every prefix of a file, and hostile texts."""

import json
import re

import pytest

from llm_stages import read_runs
from llm_stages.runs.page.html import file_data, render_page, write_page
from llm_stages.runs.page.view import page_data, utf16_index
from stage0_gateway import ChatResponse, ImagePart, JsonPart, Message, TextPart, Usage
from stage1_context import DropOldest
from stage3_tools import Later, NativeDialect, Reject, Tool, ToolOutput
from tests.stage3_tools.conversation import Recorder, answer, call, calls
from tests.tables import for_each

HOSTILE = "<script>alert(1)</script></script><!-- {{data}} {{script}} \u2028 \ud83d \u202e &lt;"


def requests_in(data):
    """Return the texts of each request, as the script of the page rebuilds them."""
    found, before = [], []
    for turn in data["turns"]:
        now = []
        for each in turn["request"]["messages"]:
            now += before[each[0] : each[1]] if isinstance(each, list) else [each]
        found.append([data["messages"][index]["text"] for index in now])
        before = now
    return found


def data_of(path):
    """Return the data of the page of a file, from which all requests can be rebuilt."""
    data = file_data(path)
    assert json.loads(json.dumps(data)) == data
    assert requests_in(data) == [
        [each.text for each in turn.request.messages] if turn.request else []
        for run in read_runs(path)
        for turn in run.turns
    ]
    return data


async def test_the_requests_are_rebuilt_from_their_differences(traced, run_file):
    await traced([call(), "no", call(n=1), answer()], Recorder().tool)
    turns = data_of(run_file.path)["turns"]
    assert turns[1]["request"]["messages"][0] == [0, 2]
    assert [turn["decision"]["kind"] for turn in turns] == ["calls", "feedback", "calls", "reply"]


async def test_dropped_messages_have_their_reason_and_are_not_stored_twice(
    run_file, new_conversation
):
    replies = [*(call(n=n) for n in range(4)), answer()]
    conversation = new_conversation(replies, Recorder().tool, window=DropOldest(max_messages=4))
    await conversation.ask(trace=run_file)
    found = data_of(run_file.path)
    before, turn = requests_in(found)[2], found["turns"][3]
    dropped = turn["request"]["dropped"]
    assert {each["reason"] for each in dropped} == {"too many messages: 2 more, 1 left"}
    assert {found["messages"][each["message"]]["text"] for each in dropped} <= set(before)
    texts = [json.dumps(each) for each in found["messages"]]
    assert len(texts) == len(set(texts))


async def test_a_call_has_its_approval_retries_and_details(traced, run_file):
    tool = Tool("f", execute=lambda arguments: ToolOutput("ok", details={"rows": 3}))
    await traced([call(), answer()], tool, approve=lambda request: True)
    (made,) = data_of(run_file.path)["turns"][0]["calls"]
    assert (made["approval"], made["details"], made["status"]) == (
        "call approve",
        {"rows": 3},
        "completed",
    )


async def test_a_rejection_a_deferral_and_a_resumed_call_are_shown(run_file, new_conversation):
    conversation = new_conversation([call(), answer()], Recorder(effect="write").tool)
    await conversation.ask(trace=run_file, approve=lambda request: Later())
    await conversation.ask(
        None, resume=True, trace=run_file, approve=lambda request: Reject("Keep it.")
    )
    found = data_of(run_file.path)
    assert [turn["number"] for turn in found["turns"]] == [1, 0, 1]
    assert [run["status"] for run in found["runs"]] == ["awaiting_approval", "completed"]
    assert found["turns"][1]["calls"][0]["approval"] == "call reject Keep it."


async def test_parts_of_messages_are_shown_as_text(traced, run_file):
    image = ImagePart("aGk=", "image/png")
    output = (TextPart("A picture."), image, JsonPart({"a": 1}))
    await traced([call(), answer()], Tool("f", execute=lambda arguments: output, effect="read"))
    *_, result = data_of(run_file.path)["messages"]
    assert result["text"].endswith("A picture.")
    assert result["parts"] == [
        {"kind": "image", "text": "(not shown)"},
        {"kind": "json", "text": "{'a': 1}"},
    ]


async def test_a_parallel_call_begins_when_it_was_announced(traced, run_file):
    replies, dialect = [calls("f", "f", "f"), "done"], NativeDialect()
    run, _ = await traced(replies, Recorder().tool, dialect=dialect)
    made = data_of(run_file.path)["turns"][0]["calls"]
    assert [each["start"] for each in made] == [run.turns[0].decision.at] * 3


async def test_several_runs_that_overlap_are_shown_one_after_the_other(run_file, new_conversation):
    inner = new_conversation([answer("inner")])

    async def ask(arguments):
        await inner.ask("Inner?", trace=run_file)
        return "ok"

    outer = new_conversation([call(), answer("outer")], Tool("f", execute=ask))
    await outer.ask("Outer?", trace=run_file)
    found = data_of(run_file.path)
    assert [run["question"] for run in found["runs"]] == ["Outer?", "Inner?"]
    assert [turn["run"] for turn in found["turns"]] == [0, 0, 1]
    assert [run["reply"] for run in found["runs"]] == ["outer", "inner"]


async def test_every_prefix_of_a_file_can_be_inspected(traced, run_file, tmp_path):
    await traced([call(), "no", call("h"), answer()], Recorder().tool)
    content, path = run_file.path.read_bytes(), tmp_path / "prefix.jsonl"
    ends = [each.end() for each in re.finditer(b"\n", content)]
    for end in (0, *ends, *(end - 1 for end in ends)):  # an incomplete line is ignored
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
        asked = calls("f", text=HOSTILE)
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


async def test_the_page_of_a_long_run_does_not_repeat_its_messages(run_file, new_conversation):
    replies = [*(call(n=n) for n in range(12)), answer()]
    tool = Tool("f", execute=lambda arguments: f"result {arguments['n']}", effect="read")
    await new_conversation(replies, tool).ask(trace=run_file, max_tool_rounds=None)
    page = render_page(file_data(run_file.path))
    assert page.count('result 7"') <= 3


@for_each("text, index, expected", [("ab", 1, 1), ("é€b", 2, 2), ("🐒b", 1, 2), ("\ud83db", 1, 1)])
def test_indexes_count_utf16_units(text, index, expected):
    assert utf16_index(text, index) == expected


async def test_marks_count_utf16_units(traced, run_file):
    text = f"🐒\n```json\n{call()[:-1]},}}\n```"
    await traced([text, answer()], Recorder().tool)
    decision = data_of(run_file.path)["turns"][0]["decision"]
    raw = text.encode("utf-16-le")
    assert raw[2 * decision["start"] :][:2].decode("utf-16-le") == "{"
    (repair,) = decision["repairs"]
    assert raw[2 * repair["start"] : 2 * repair["end"]].decode("utf-16-le") == ","


async def test_a_killed_run_shows_its_tokens_so_far(run_file, traced):
    costs = {"finish_reason": "stop", "usage": Usage(100, 7)}
    replies = [ChatResponse(Message.assistant(text), **costs) for text in (call(), answer())]
    await traced(replies, Tool("f", "Do.", None, lambda arguments: "1", effect="read"))
    lines = run_file.path.read_bytes().splitlines(keepends=True)
    run_file.path.write_bytes(b"".join(lines[:-1]))
    run = data_of(run_file.path)["runs"][0]
    assert run["status"] == ""
    assert (run["usage"]["input_tokens"], run["usage"]["output_tokens"]) == (200, 14)


async def test_the_facts_about_a_run_are_its_id_options_and_versions(traced, run_file):
    await traced([answer()], max_tool_rounds=3)
    facts = data_of(run_file.path)["runs"][0]["facts"]
    assert facts["run"]
    assert facts["max tool rounds"] == 3
    assert "forked from" not in facts
    assert "python" in facts


async def test_the_text_of_a_refusal_is_shown(traced, run_file):
    refused = {"finish_reason": "refusal", "refusal": "I will not."}
    await traced([ChatResponse(Message.assistant(""), **refused)])
    assert data_of(run_file.path)["turns"][0]["reply"]["refusal"] == "I will not."
