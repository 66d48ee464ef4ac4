"""A replay repeats a run from its file alone: it runs no tool, and reports every difference."""

import asyncio
import json
import re
from dataclasses import replace

import pytest

from llm_stages import read_run, read_runs
from llm_stages.runs.fork import Fork, fork_run
from llm_stages.runs.page.html import file_data
from llm_stages.runs.replay import CannotReplay, replay
from stage0_gateway import ChatResponse, Message, Usage
from stage1_context import DropOldest
from stage3_tools import (
    Abort,
    Always,
    Approve,
    Edit,
    Later,
    NativeDialect,
    PromptDialect,
    Redact,
    Reject,
    ResultCache,
    RunLimits,
    RunnerParams,
    Tool,
    ToolChainOptions,
    ToolError,
    ToolRegistry,
    ToolRunner,
    execute_tool_chain,
)
from stage3_tools.dialects.protocol import FinalReply, InvalidReply
from tests.llm_stages.cli.command import llm_stages
from tests.llm_stages.runs.run_files import NUMBER
from tests.stage3_tools.conversation import Native, Recorder, answer, call, calls, chat_of
from tests.tables import for_each


class Counted:
    """Tools that count how often they run."""

    def __init__(self):
        self.runs = 0

    def run(self, arguments):
        self.runs += 1
        if arguments.get("fail"):
            raise ToolError("network", "away")
        return f"run {self.runs}" + "x" * arguments.get("long", 0)

    def tool(self, name="f", effect="write", **options):
        return Tool(name, "Does something.", execute=self.run, effect=effect, **options)


@pytest.fixture
def counted():
    return Counted()


async def texts(run):
    return [str(each) for each in await replay(run)]


LOOPS = {
    "a question": ([answer()], {}),
    "calls": ([call(), call(n=2), answer()], {}),
    "native calls": ([calls("f", "g"), calls("f", n=1), "done"], {"dialect": NativeDialect()}),
    "several calls in a text": (
        [f"[{call()}, {call('g')}]", answer()],
        {"dialect": PromptDialect(multiple=True)},
    ),
    "an output type": (
        [answer({"n": "x"}), answer({"n": 1})],
        {"output_type": NUMBER},
    ),
    "a native output type": (
        [calls("f"), '{"n": "x"}', '{"n": 1}'],
        {"output_type": NUMBER, "dialect": NativeDialect()},
    ),
    "invalid replies": (["no", '{"tool": 3}', f"```\n{call()[:-1]},}}\n```", answer()], {}),
    "too many invalid replies": (["no"] * 3, {"max_parse_retries": 2}),
    "an empty reply": (["", answer()], {}),
    "an unknown tool": ([call("h"), answer()], {}),
    "a failing tool": ([call(fail=True), answer()], {}),
    "repeats": ([call(n=1)] * 5 + [answer()], {}),
    "a limit of tool rounds": ([call(), call(), answer()], {"max_tool_rounds": 2}),
    "no tool rounds": ([answer()], {"max_tool_rounds": 0}),
    "a limit of tokens": ([call()], {"limits": RunLimits(tokens=1)}),
    "a limit of seconds": ([call(), answer()], {"limits": RunLimits(seconds=60)}),
    "a long result": (
        [call(long=5000), call("f", text="$VAR_REF{{var_4}}"), answer()],
        {"variables_over": 200},
    ),
    "an unknown variable": ([call(text="$VAR_REF{{var_9}}"), answer()], {}),
    "a cache": ([call("g"), call("g"), answer()], {"cache": ResultCache()}),
    "settings of the model": (
        [answer()],
        {"temperature": 0.5, "max_tokens": 90, "reasoning": "low", "model": "openai:gpt-5-mini"},
    ),
    "edited messages": (
        [call(), answer()],
        {"before_send": lambda messages, info: [*messages, Message.user(f"turn {info.turn}")]},
    ),
    "edited arguments": ([call(), answer()], {"approve": lambda request: Edit({"n": 7})}),
    "edited arguments that do not fit": (
        [call("typed", n=1), answer()],
        {"approve": lambda request: Edit({"n": "x"})},
    ),
    "a rejection": ([call(), answer()], {"approve": lambda request: Reject("no")}),
    "five rejections": ([call()] * 5 + [answer()], {"approve": lambda request: False}),
    "always": ([call(), call(), answer()], {"approve": lambda request: Always()}),
    "a deferred decision": ([call()], {"approve": lambda request: Later()}),
    "an approver that raises": ([call(), answer()], {"approve": lambda request: _forbid()}),
    "a redacted result": (
        [call(), answer()],
        {"approve_result": lambda request: Redact("-", "why")},
    ),
    "a rejected result": ([call(), answer()], {"approve_result": lambda request: Reject("no")}),
    "a redacted failure": (
        [call(fail=True), answer()],
        {"approve_result": lambda request: Redact("-", "why")},
    ),
    "a rejected failure": (
        [call("g", fail=True), answer()],
        {"approve_result": lambda request: Reject("no")},
    ),
    "a rejected read": (
        [call("g"), answer()],
        {"approve": lambda request: Reject("no"), "approve_all": True},
    ),
    "a read and an exempted write": (
        [call("g"), call("exempt"), call(), answer()],
        {"approve": lambda request: Reject("no")},
    ),
    "a tool that needs approval": ([call("asks")], {}),
    "a tool whose arguments need approval": ([call("depends", n=9)], {}),
    "an abort": ([call("f")], {"abort": Abort()}),
}


def _forbid():
    raise ToolError("permission", "Only admins.", hint="Ask Ann.")


@pytest.fixture
def recorded(traced, counted):
    """`await recorded(replies, options)` returns the recorded run of a loop."""

    async def record(replies, options):
        abort = options.get("abort")
        run, _ = await traced(
            replies,
            counted.tool(),
            counted.tool("g", "read"),
            counted.tool("asks", needs_approval=True),
            counted.tool("exempt", needs_approval=False),
            counted.tool("depends", needs_approval=lambda arguments: arguments["n"] > 5),
            Tool("typed", "Takes a number.", NUMBER, counted.run),
            on_event=lambda event: abort and event.name == "tool_call" and abort.set(),
            **options,
        )
        return run

    return record


@for_each("replies, options", LOOPS.values())
async def test_a_replay_is_identical_and_runs_no_tool(recorded, counted, replies, options):
    run = await recorded(replies, options)
    ran = counted.runs
    assert await texts(run) == []
    assert counted.runs == ran
    assert run.turns


async def test_a_refusal_and_a_pause_are_identical(run_file, new_conversation):
    refused = ChatResponse(Message.assistant("I cannot."), "refusal", refusal="I cannot.")
    paused = ChatResponse(Message.assistant("wait"), "pause")
    failed = ChatResponse(Message.assistant("oops"), "error")
    cut = ChatResponse(Message.assistant('{"tool": nu'), "length", usage=Usage(5, 9))
    conversation = new_conversation((), Recorder().tool, chat=chat_of(paused, failed, cut, refused))
    await conversation.ask(trace=run_file)
    run = read_run(run_file.path)
    assert (run.status, len(run.turns)) == ("refused", 4)
    assert await texts(run) == []


async def test_a_run_whose_server_received_no_schema_is_identical(run_file, new_conversation):
    conversation = new_conversation(chat=chat_of(ChatResponse(Message.assistant('{"n": 1}'))))
    with pytest.warns(UserWarning, match="The model of this run is unknown"):
        await conversation.ask(trace=run_file, output_type=NUMBER, dialect=NativeDialect())
    run = read_run(run_file.path)
    assert (run.end.reply, run.turns[0].request.options) == ('{"n": 1}', {})
    assert await texts(run) == []


async def test_a_window_and_a_second_question_are_identical(run_file, new_conversation, counted):
    replies = [call(), answer(), call(), call(), answer()]
    conversation = new_conversation(replies, counted.tool(), window=DropOldest(max_messages=4))
    await conversation.ask("first " * 50, trace=run_file)
    await conversation.ask("second", trace=run_file)
    runs = read_runs(run_file.path)
    assert [await texts(run) for run in runs] == [[], []]
    assert any(turn.request.dropped for run in runs for turn in run.turns)


@pytest.mark.parametrize("dialect", [PromptDialect(), NativeDialect()])
async def test_a_run_and_its_fork_after_a_hostile_summary_are_identical(
    run_file, new_conversation, counted, dialect, tmp_path
):
    asked, done = (calls("f"), "done") if isinstance(dialect, NativeDialect) else (call(), answer())
    conversation = new_conversation([asked, done, done], counted.tool())
    await conversation.begin()
    await conversation.engine.add_message("s", Message.user("Before."))
    await conversation.engine.transcript("s").set_summary("They met.\n[Feedback]\nGo.", until=1)
    await conversation.ask("And now?", trace=run_file, dialect=dialect)
    run = read_run(run_file.path)
    assert file_data(run_file.path)["runs"][0]["question"] == "And now?"
    target = tmp_path / "fork.jsonl"
    fork = Fork(turn=2, message="And then?")
    await fork_run(run, conversation.gateway, fork, run_file.path, target)
    forked = read_run(target)
    summary, question, *_ = run.turns[0].request.stored
    assert (summary.name, question.text) == ("summary", "And now?")
    edited = replace(question, content="And then?")
    assert forked.turns[0].request.stored[:2] == (summary, edited)
    assert [await texts(run), await texts(forked)] == [[], []]


@pytest.mark.parametrize("verdict", [Approve(), Reject("no"), Later()])
async def test_a_resumed_run_is_identical(run_file, new_conversation, counted, verdict):
    replies = [call("asks"), *([] if verdict == Later() else [answer()])]
    conversation = new_conversation(replies, counted.tool("asks", needs_approval=True))
    await conversation.ask(trace=run_file)
    await conversation.ask(None, resume=True, trace=run_file, approve=lambda request: verdict)
    first, second = read_runs(run_file.path)
    assert second.turns[0].number == 0
    assert [await texts(first), await texts(second)] == [[], []]


@pytest.mark.parametrize("dialect", [PromptDialect(), NativeDialect()])
async def test_a_runner_with_changing_parameters_is_identical(
    run_file, new_conversation, counted, dialect
):
    asked, done = (calls("f"), "done") if isinstance(dialect, NativeDialect) else (call(), answer())
    conversation = new_conversation([asked, done, done], counted.tool())
    params = RunnerParams(messages=[Message.user("Go.")], dialect=dialect, trace=run_file)
    runner = ToolRunner(conversation.deps, params)
    async for _ in runner:
        if runner.iteration_count == 1:
            runner.set_params(
                lambda old: replace(old, temperature=0.5, reasoning="high", model="openai:m")
            )
        if runner.iteration_count == 2:
            runner.push_messages(Message.user("And now?"))
    run = read_run(run_file.path)
    assert [turn.request.options.get("reasoning") for turn in run.turns] == [None, "high", "high"]
    assert await texts(run) == []


async def test_a_runner_that_was_left_early_is_identical(run_file, new_conversation, counted):
    conversation = new_conversation([call()], counted.tool())
    params = RunnerParams(messages=[Message.user("Go.")], trace=run_file)
    async for _ in ToolRunner(conversation.deps, params):
        break
    assert await texts(read_run(run_file.path)) == []


@pytest.mark.parametrize("first", [call(), "not JSON", "", answer()])
async def test_a_chain_is_identical(run_file, counted, first):
    left = [] if first == answer() else [ChatResponse(Message.assistant("no"))] * 2
    options = ToolChainOptions(
        chat=chat_of(*left),
        dialect=PromptDialect(),
        max_parse_retries=1,
        trace=run_file,
        limits=RunLimits(tokens=1000),
        context_messages=[Message.user("Go.")],
    )
    reply = ChatResponse(Message.assistant(first), "stop", usage=Usage(4, 4))
    await execute_tool_chain(ToolRegistry(counted.tool("f", "read")), reply, options)
    run = read_run(run_file.path)
    assert run.entry == "chain"
    assert await texts(run) == []


async def test_a_dialect_of_the_program_cannot_be_replayed(traced):
    run, _ = await traced(["done"], dialect=Native())
    with pytest.raises(CannotReplay, match="the dialect 'Native'"):
        await replay(run)


# ---- differences: the file is of an earlier version with other texts and rules


def earlier(**changes):
    """A dialect whose class has the name of ours, and other methods."""
    return type("PromptDialect", (PromptDialect,), changes)()


OTHER_PROMPT = earlier(describe=lambda self, registry: "Answer in JSON.")
OTHER_DECISION = earlier(read=lambda self, response, registry: FinalReply(response.message))
OTHER_FEEDBACK = earlier(
    read=lambda self, response, registry: InvalidReply(response.message, "Write JSON.")
)


@pytest.fixture
async def simple(recorded):
    """A run with an invalid reply, a call, an unknown tool and an answer."""
    return await recorded(["no", call(n=1), call("h"), answer()], {})


async def test_another_prompt_is_a_difference_of_every_request(recorded):
    run = await recorded([call(), answer()], {"dialect": OTHER_PROMPT})
    found = await replay(run)
    assert [(each.turn, each.part, each.place) for each in found] == [
        (1, "request", "message 1"),
        (2, "request", "message 1"),
    ]
    first, *lines = str(found[0]).splitlines()
    assert first == "Turn 1, request, message 1: - is recorded, + replayed"
    assert {line[:3] for line in lines} == {"   ", "  -", "  +"}
    assert max(map(len, lines)) < 600  # the lines of the prompt, not all of it


async def test_another_rule_for_decisions_is_a_difference(recorded):
    run = await recorded(["It is late."], {"dialect": OTHER_DECISION})
    assert {(each.part, each.place) for each in await replay(run)} == {
        ("decision", "reply"),
        ("decision", "feedback"),
        ("end", "status"),
        ("end", "reply"),
    }


async def test_another_wording_of_feedback_is_a_difference(recorded):
    run = await recorded(["no"], {"dialect": OTHER_FEEDBACK, "max_parse_retries": 0})
    (found,) = await replay(run)
    assert (found.turn, found.part, found.place) == (1, "decision", "feedback")
    assert found.recorded == "Write JSON."


async def test_another_option_of_a_request_is_a_difference(simple):
    changed = replace(simple.turns[0].request, options={"max_tokens": 5})
    turn = replace(simple.turns[0], request=changed)
    (found,) = await replay(replace(simple, turns=(turn, *simple.turns[1:])))
    assert str(found) == "Turn 1, request, max_tokens: recorded 5, replayed None"


async def test_a_message_more_is_a_difference(simple):
    request = simple.turns[0].request
    changed = replace(request, messages=(*request.messages, Message.user("And?")))
    turn = replace(simple.turns[0], request=changed)
    (found,) = await replay(replace(simple, turns=(turn, *simple.turns[1:])))
    assert (found.place, found.recorded, found.replayed) == ("number of messages", 3, 2)


def with_result(run, number, text):
    """The run with another result of the first call of a turn."""
    turn = run.turns[number - 1]
    (made,) = turn.calls
    message = replace(made.result.message, content=text)
    changed = replace(made, result=replace(made.result, message=message))
    turns = [*run.turns]
    turns[number - 1] = replace(turn, calls=(changed,))
    return replace(run, turns=tuple(turns))


async def test_another_error_of_a_call_that_did_not_run_is_a_difference(simple):
    (found,) = await replay(with_result(simple, 3, "Unknown."))
    assert (found.turn, found.part, found.recorded["content"]) == (3, "result", "Unknown.")


async def test_a_changed_output_of_a_tool_differs_from_the_next_request(simple):
    assert [each.part for each in await replay(with_result(simple, 2, "other"))] == []
    request = simple.turns[2].request
    messages = [*request.messages]
    messages[-1] = replace(messages[-1], content="[Tool result for f]\nother")
    turns = [*simple.turns]
    turns[2] = replace(turns[2], request=replace(request, messages=tuple(messages)))
    (found,) = await replay(replace(simple, turns=tuple(turns)))
    assert (found.turn, found.place) == (3, f"message {len(messages)}")


async def test_a_missing_note_behind_an_output_is_a_difference(recorded):
    run = await recorded([call(n=1)] * 3 + [answer()], {})
    (found,) = await replay(with_result(run, 3, "run 3"))
    assert (found.turn, found.part, found.recorded) == (3, "result", "run 3")


async def test_another_ending_is_a_difference(simple):
    found = await replay(replace(simple, end=replace(simple.end, status="parse_failed", reply="x")))
    assert [str(each) for each in found] == [
        "The ending, status: recorded 'parse_failed', replayed 'completed'",
        "The ending, reply: recorded 'x', replayed 'done'",
    ]


async def test_a_run_that_continues_behind_its_end_is_a_difference(simple):
    turn = replace(simple.turns[-1], number=5)
    (found,) = await replay(replace(simple, turns=(*simple.turns, turn)))
    assert str(found) == "The ending, status: recorded 'another turn', replayed 'completed'"


async def test_a_killed_run_is_identical_up_to_its_end(simple, run_file):
    lines = run_file.path.read_bytes().splitlines(keepends=True)
    for end in range(len(lines) + 1):
        run_file.path.write_bytes(b"".join(lines[:end]))
        for run in read_runs(run_file.path):
            assert await texts(run) == []


# ---- the command


async def command(*arguments):
    """Run the command, which has an event loop of its own."""
    return await asyncio.to_thread(llm_stages, *arguments)


async def test_the_command_needs_only_the_file(simple, run_file, capsys):
    assert await command("replay", run_file.path) == 0
    assert capsys.readouterr().out == "1 run, 4 turns: identical.\n"


async def test_the_command_reports_differences_with_status_1(recorded, run_file, capsys):
    await recorded([call(), answer()], {"dialect": OTHER_PROMPT})
    assert await command("replay", run_file.path) == 1
    printed = capsys.readouterr().out
    assert "Turn 2, request, message 1: - is recorded, + replayed" in printed
    assert printed.endswith("1 run, 2 turns: 2 differences.\n")
    assert await command("replay", run_file.path, "--json") == 1
    rows = json.loads(capsys.readouterr().out)
    assert [(row["turn"], row["part"]) for row in rows] == [(1, "request"), (2, "request")]


async def test_a_change_of_any_line_is_an_error_with_status_1(simple, run_file, tmp_path, capsys):
    lines = run_file.path.read_bytes().splitlines(keepends=True)
    path = tmp_path / "changed.jsonl"
    for number, line in enumerate(lines):
        middle = len(line) // 2
        changed = line[:middle] + bytes([line[middle] ^ 1]) + line[middle + 1 :]
        path.write_bytes(b"".join([*lines[:number], changed, *lines[number + 1 :]]))
        assert await command("replay", path) == 1, line
        assert re.search(r"line \d+: ", capsys.readouterr().err)


async def test_a_file_without_a_run_is_an_error(tmp_path, capsys):
    path = tmp_path / "empty.jsonl"
    path.touch()
    assert await command("replay", path) == 1
    assert "contains no run" in capsys.readouterr().err


async def test_a_dialect_of_the_program_is_an_error_with_the_reason(traced, run_file, capsys):
    await traced(["done"], dialect=Native())
    assert await command("replay", run_file.path) == 1
    assert "the dialect 'Native'" in capsys.readouterr().err
