"""The tasks can be solved, their checks detect wrong answers, and the program reports both."""

import json
import os
import re
from pathlib import Path

from stage0_gateway import Gateway, Message, ScriptedModel, ToolCall
from stage2_output import Issue
from stage3_tools import DecisionMade, FeedbackGiven
from tests.programs import run_program
from tests.tables import for_each
from tests.try_model.trial import Trial, count_feedback, try_task
from tests.try_model.trial_report import describe, markdown

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "performance" / "models.md"
TASKS = json.loads((HERE / "tasks.json").read_text("utf-8"))
KINDS = ["one tool", "two tools", "no tool", "wrong arguments", "long result"]
KINDS += ["refusal", "injection", "typed answer"]
ATTEMPTS = {
    "delete_notes": {"folder": "archive"},
    "send_email": {"to": "ada@example.com", "subject": "Lunch", "body": "At noon?"},
}
SOLVED_BY_RULES = {
    "weather",
    "time",
    "stock",
    "price",
    "customer",
    "note",
    "weather and time",
    "weather twice",
    "rejected deletion",
    "rejected email",
    "instructions in a note",
    "forged result",
    "typed weather",
    "typed orders",
}
"""The tasks that the embedded model solves, which matches words and understands nothing."""


def script(dialect, calls, reply):
    """Return the replies of a model that makes these calls, one per turn, and then answers."""
    if dialect == "native":
        made = [
            Message.assistant("", [ToolCall(f"call_{number}", tool, json.dumps(arguments))])
            for number, (tool, arguments) in enumerate(calls)
        ]
        return [*made, reply if isinstance(reply, str) else json.dumps(reply)]
    made = [json.dumps({"tool": tool, "arguments": arguments}) for tool, arguments in calls]
    return [*made, json.dumps({"tool": None, "reply": reply})]


def solution(task):
    """Return the calls and the reply that a task expects."""
    calls = [(call["tool"], call["arguments"]) for call in task.get("calls", ())]
    calls += [(name, ATTEMPTS[name]) for name in task.get("attempted", ())]
    words = " ".join(each.split("|")[0] for each in task.get("reply", ()))
    return calls, task.get("output", words)


async def try_scripted(task, dialect, calls, reply):
    return await try_replies(task, dialect, script(dialect, calls, reply))


async def try_replies(task, dialect, replies):
    async with Gateway("openai:m", transport=ScriptedModel(replies)) as gateway:
        return await try_task(gateway, task, dialect)


def test_there_are_30_tasks_of_8_kinds_with_different_names():
    assert len({task["name"] for task in TASKS}) == len(TASKS) == 30
    assert list(dict.fromkeys(task["kind"] for task in TASKS)) == KINDS


@for_each("dialect", ["prompt", "native"])
@for_each("task", TASKS)
async def test_the_expected_calls_and_reply_solve_a_task(task, dialect):
    tried = await try_scripted(task, dialect, *solution(task))
    assert (tried.problem, tried.feedback, tried.writes_with_text) == (None, 0, 0)
    assert tried.tokens > 0


@for_each("dialect", ["prompt", "native"])
@for_each("task", TASKS)
async def test_an_answer_without_calls_and_facts_solves_no_task(task, dialect):
    wrong = {"city": "?", "celsius": 0, "name": "?", "born": 0, "orders": []}
    properties = task.get("output_type", {}).get("properties")
    reply = {name: wrong[name] for name in properties} if properties else "That was deleted."
    tried = await try_scripted(task, dialect, [], reply)
    assert tried.problem is not None


@for_each("task", [each for each in TASKS if "forbidden" in each])
async def test_a_forbidden_call_fails_its_task(task):
    known = {"get_weather": {"city": "Rome"}, "get_time": {"city": "Rome"}}
    known |= {"get_stock": {"item": "desk"}, "read_note": {"name": "garden"}, **ATTEMPTS}
    calls, reply = solution(task)
    calls = [*calls, *((name, known[name]) for name in task["forbidden"])]
    tried = await try_scripted(task, "native", calls, reply)
    assert tried.problem == f"{task['forbidden'][0]} was called"


async def test_corrected_replies_and_calls_are_counted():
    task = next(each for each in TASKS if each["name"] == "id pattern")
    calls, reply = solution(task)
    wrong = ("get_orders", {"customer_id": "7204"})
    tried = await try_scripted(task, "native", [wrong, wrong, *calls], reply)
    assert (tried.problem, tried.feedback) == (None, 2)


async def test_a_write_beside_text_is_counted_in_the_prompt_dialect_only():
    task = next(
        task for task in TASKS if any(name in ATTEMPTS for name in task.get("attempted", ()))
    )
    calls, words = solution(task)
    for dialect, expected in (("prompt", 1), ("native", 0)):
        replies = script(dialect, calls, words)
        if dialect == "prompt":
            replies.insert(0, f"I will do that.\n{replies[0]}")
        tried = await try_replies(task, dialect, replies)
        assert (tried.problem, tried.writes_with_text) == (None, expected)


def test_feedback_about_a_write_beside_other_text_has_its_own_count():
    def feedback(*rules):
        issues = tuple(Issue("", "A problem.", rule) for rule in rules)
        return FeedbackGiven(turn=1, text="?", feedback="Again.", issues=issues)

    decision = DecisionMade(turn=1, text="{}", reply="Done.")
    events = [feedback(), decision, feedback("whole_reply"), feedback("type"), decision]
    events += [feedback("required", "whole_reply"), feedback("whole_reply", "type", "whole_reply")]
    assert count_feedback(events) == (5, 3)
    assert count_feedback([decision]) == (0, 0)


def rows_of(page):
    """Return the cells of the first table of a page, without its head."""
    table = re.search(r"(?:^\|.*\n)+", page, re.MULTILINE)[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def run(*arguments, cwd, **environment):
    environment = {"PATH": os.environ["PATH"], **environment}
    return run_program([HERE, *arguments], cwd=cwd, environment=environment, warnings="error")


def test_the_program_tries_the_embedded_model_and_writes_json_and_a_report(tmp_path):
    server = "the embedded model: rules, no language model"
    done = run("--model", "offline:teacher", "--server", server, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "try-model.json").read_text("utf-8"))
    assert written["model"] == "offline:teacher"
    for dialect in ("prompt", "native"):
        trials = written["dialects"][dialect]
        assert [each["name"] for each in trials] == [task["name"] for task in TASKS]
        assert {each["name"] for each in trials if each["problem"] is None} == SOLVED_BY_RULES
        assert all(each["tokens"] > 0 and each["seconds"] > 0 for each in trials)
        assert {each["writes_with_text"] for each in trials} == {0}
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[:2] for line in lines if line[:1] == ["all"]] == [["all", "14/30"]] * 2
    [prompt, native] = rows_of((tmp_path / "try-model.md").read_text("utf-8"))
    assert [prompt[:8], native[:8]] == [row[:8] for row in rows_of(PAGE.read_text("utf-8"))]
    assert re.search(r"tasks \w{8}", prompt[11])[0] in rows_of(PAGE.read_text("utf-8"))[0][11]


def test_a_report_has_the_first_tries_and_no_texts_keys_or_addresses(monkeypatch):
    monkeypatch.setenv("LLM_BASE_URL", "http://gpu.private.example:8000/v1")
    trials = [
        Trial("a", "one tool", None, feedback=0, tokens=1000, seconds=1.0),
        Trial("b", "one tool", None, feedback=2, tokens=500, seconds=0.5),
        Trial("c", "no tool", "cannot reach gpu.private.example", writes_with_text=1),
    ]
    tried = describe("vllm:/home/ann/models/Qwen3-8B", None, None, "2026-01-02")
    page = markdown(tried, {"prompt": trials, "native": trials[2:]})
    first, second = rows_of(page)
    head = ["vllm:Qwen3-8B", "vllm, another address", "default"]
    assert first[:11] == [*head, "prompt", "2/3", "1/3", "2", "1", "1,500", "1.5", "2026-01-02"]
    assert second[3:10] == ["native", "0/1", "0/1", "0", "1", "not counted", "0.0"]
    assert "| one tool | 2/2 | 1/2 | 2 | 0 | 1,500 | 1.5 |" in page
    assert "Not solved: c." in page
    assert not re.search("gpu|private|ann|home", page)


def test_the_program_tries_one_kind_or_one_task(tmp_path):
    path = tmp_path / "one.json"
    for only, count in (("typed answer", 3), ("typed person", 1)):
        done = run("--only", only, "--json", path, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        trials = json.loads(path.read_text())["dialects"].values()
        assert [len(each) for each in trials] == [count, count]
    assert run("--only", "no such task", cwd=tmp_path).returncode == 2


@for_each(
    "arguments, text",
    [
        (["--model", "gpt-5-mini"], "Write provider:name"),
        (["--model", "openai:gpt-5-mini"], "needs a key"),
        (["--model", "offline:teacher", "--reasoning", "huge"], "reasoning='huge' is unknown"),
    ],
)
def test_invalid_settings_end_with_one_line_and_status_1(tmp_path, arguments, text):
    done = run(*arguments, cwd=tmp_path)
    assert (done.returncode, len(done.stderr.strip().splitlines())) == (1, 1)
    assert text in done.stderr
