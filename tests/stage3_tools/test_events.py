import json
from dataclasses import FrozenInstanceError, fields
from typing import get_args

import pytest

from stage0_gateway import (
    ChatResponse,
    Gateway,
    Message,
    MessageStream,
    ServerFailed,
    ToolCall,
    Usage,
)
from stage2_output import Issue
from stage3_tools import (
    ApprovalDecided,
    ApprovalPending,
    ApprovalRequest,
    Compacted,
    DecisionMade,
    FeedbackGiven,
    LoopEnded,
    LoopEvent,
    LoopStats,
    NativeDialect,
    PromptDialect,
    Reject,
    ReplyReceived,
    ReplyStreamed,
    ReplyText,
    RequestFailed,
    RequestSent,
    RunLimits,
    RunStarted,
    ToolAnswered,
    ToolCalled,
    ToolError,
    ToolLoopDeps,
    ToolLoopResult,
    ToolProgressed,
    ToolResult,
    ToolRetried,
    TurnEnded,
    TurnStarted,
    run_tool_loop,
)
from tests.stage3_tools.conversation import DONE, Recorder, call, chat_of, native_response
from tests.tables import for_each

CALL = call()


# The events of one turn, from its request to its reply, where a part of the reply is for people.
ASKED = "turn_start request reply"
ANSWERED = "turn_start request reply_text reply decision turn_end"


@for_each(
    "replies, turns",
    [
        ([DONE], [ANSWERED]),
        ([CALL, DONE], [f"{ASKED} decision tool_call tool_result turn_end", ANSWERED]),
        (["?", DONE], [f"{ASKED} feedback turn_end", ANSWERED]),
        (['{"tool": null, "reply": ""}', DONE], [f"{ASKED} feedback turn_end", ANSWERED]),
    ],
)
async def test_the_events_of_a_run_have_the_documented_order(new_conversation, replies, turns):
    conversation = new_conversation(replies, Recorder().tool)
    await conversation.ask()
    names = " ".join(["run_start", *turns, "loop_end"])
    assert " ".join(event.name for event in conversation.events) == names


async def test_turns_are_numbered_from_one(new_conversation):
    conversation = new_conversation([CALL, DONE, DONE], Recorder().tool)
    await conversation.ask()
    turns = [(event.name, event.turn) for event in conversation.events]
    assert turns[:2] == [("run_start", 0), ("turn_start", 1)]
    assert turns[7:9] == [("turn_end", 1), ("turn_start", 2)]
    assert {turn for _, turn in turns[2:7]} == {1}
    assert {turn for _, turn in turns[8:]} == {2}
    result = await conversation.ask()
    ended = LoopEnded(turn=1, status="completed", reply="done", result=result)
    assert conversation.events[-1] == ended


async def test_a_run_starts_with_everything_that_its_events_refer_to(new_conversation):
    tool, dialect = Recorder().tool, NativeDialect()
    conversation = new_conversation(["done"], tool)
    await conversation.ask("Hello?", dialect=dialect, temperature=0.5, limits=RunLimits(tokens=99))
    started = conversation.events[0]
    assert started == RunStarted(
        turn=0,
        started=started.started,
        entry="loop",
        session_id="s",
        question=Message.user("Hello?"),
        options=started.options,
        dialect=dialect,
        model="openai:m",
        gateway=None,
        tools=(tool,),
    )
    assert started.gateway is conversation.gateway
    assert (started.at, started.started > 1.7e9) == (0.0, True)
    options = {name: started.options[name] for name in ("temperature", "limits", "on_event")}
    assert options == {"temperature": 0.5, "limits": {"tokens": 99}, "on_event": ["list.append"]}
    assert not {"dialect", "model", "trace", "parent", "stop", "abort"} & {*started.options}


async def test_the_model_of_a_function_is_unknown_unless_its_gateway_is_named():
    events, gateway = [], Gateway("offline:teacher")
    for named in (None, gateway):
        deps = ToolLoopDeps(chat_of(native_response()), gateway=named)
        session = await deps.context_engine.create_session()
        await run_tool_loop(deps, session, "Hi.", dialect=NativeDialect(), on_event=events.append)
    starts = [event for event in events if event.name == "run_start"]
    assert [(each.model, each.gateway) for each in starts] == [
        (None, None),
        ("offline:teacher", gateway),
    ]


async def test_the_events_of_a_run_share_its_id_and_count_seconds_from_its_start(new_conversation):
    conversation = new_conversation([CALL, DONE, DONE], Recorder().tool)
    await conversation.ask()
    first = [*conversation.events]
    await conversation.ask()
    second = conversation.events[len(first) :]
    assert [len({event.run_id for event in events}) for events in (first, second)] == [1, 1]
    assert first[0].run_id != second[0].run_id
    for events in (first, second):
        times = [event.at for event in events]
        assert times[0] == 0.0
        assert times == sorted(times)
        assert times[-1] < 60


async def test_a_request_contains_exactly_the_messages_and_keywords_that_are_sent(
    new_conversation,
):
    tool, dialect = Recorder().tool, NativeDialect()
    conversation = new_conversation(["done"], tool)
    await conversation.ask("Hello?", dialect=dialect, temperature=0.5)
    [sent] = [event for event in conversation.events if event.name == "request"]
    assert sent == RequestSent(
        turn=1,
        messages=conversation.model.requests[0].messages,
        keywords={"temperature": 0.5, "tools": (tool.spec,), "cache_key": "s"},
        tools=(tool,),
        dialect=dialect,
        gateway=None,
        last=False,
        selection=None,
        previous=(None, ()),
    )
    assert sent.messages == (Message.user("Hello?"),)
    assert sent.conversation == sent.messages


async def test_a_reply_has_the_response_and_the_seconds_since_its_request(new_conversation):
    conversation = new_conversation([DONE], Recorder().tool)
    await conversation.ask()
    sent, reply = [each for each in conversation.events if each.name in ("request", "reply")]
    assert (reply.response.content, reply.response.usage) == (DONE, Usage(10, 5))
    assert 0 < reply.seconds <= reply.at - sent.at


def test_the_ids_and_times_of_an_event_are_not_compared():
    given = {"run_id": "a", "parent_run_id": "b", "parent_call_id": "c", "at": 1.0}
    assert TurnEnded(turn=1, usage=None, **given) == TurnEnded(turn=1, usage=None)
    assert TurnEnded(turn=1, usage=None) != TurnEnded(turn=2, usage=None)


def test_events_are_frozen():
    with pytest.raises(FrozenInstanceError):
        TurnEnded(turn=1, usage=None).turn = 2


# ---- events as JSON


async def test_every_event_can_be_written_as_json_with_name_and_fields(new_conversation):
    conversation = new_conversation([CALL, "no JSON", DONE], Recorder(returns={"n": 1}).tool)
    result = await conversation.ask()
    plain = [json.loads(event.to_json()) for event in conversation.events]
    assert [each["name"] for each in plain] == [event.name for event in conversation.events]
    by_name = {each["name"]: each for each in plain}
    assert by_name["run_start"]["question"] == {"role": "user", "content": "Go."}
    assert by_name["run_start"]["tools"][0]["name"] == "f"
    assert by_name["request"]["messages"][0]["role"] == "system"
    assert by_name["reply"]["response"]["message"]["content"] == DONE
    assert by_name["tool_call"]["call"]["name"] == "f"
    assert by_name["tool_result"]["result"]["output"] == '{"n":1}'
    assert by_name["feedback"]["text"] == "no JSON"
    assert by_name["loop_end"]["result"]["history"][0]["result"]["status"] == "completed"
    assert (by_name["loop_end"]["status"], by_name["loop_end"]["reply"]) == (
        "completed",
        result.reply,
    )


@for_each(
    "value, plain",
    [
        ({"n": float("nan")}, {"n": "NaN"}),
        (object(), "object"),
        ({1, 2}, [1, 2]),
        (iter([1]), "list_iterator"),
        (b"\xff", "_w=="),
        ("half \ud800", "half \ud800"),
    ],
)
def test_a_value_without_a_json_form_is_written_as_its_type_name(value, plain):
    call = ToolCall("c", "f", "{}")
    event = ToolProgressed(turn=1, call=call, value=value)
    assert json.loads(event.to_json())["value"] == plain


def test_json_of_events_omits_the_stream_and_redacted_values():
    hidden = ToolResult("c", "f", "[hidden]", value="s3cret")
    assert "s3cret" not in ToolAnswered(turn=1, result=hidden).to_json()
    event = ReplyStreamed(turn=1, stream=Gateway("offline:teacher").stream([Message.user("Hi.")]))
    common = {"name", "turn", "run_id", "parent_run_id", "parent_call_id", "at"}
    assert json.loads(event.to_json()).keys() == common


def test_the_json_of_an_error_has_kind_message_and_hint():
    error = ToolError("execution", "Broken.", hint="Ask Ann.", details={"traceback": "line 1"})
    event = ToolRetried(turn=1, call=ToolCall("c", "f", "{}"), error=error, attempt=2)
    plain = json.loads(event.to_json())
    assert plain["error"] == {"kind": "execution", "message": "Broken.", "hint": "Ask Ann."}
    assert plain["attempt"] == 2


# ---- events for browsers

SECRET = "s3cret"
SAID = Message.assistant(SECRET)
READ = ToolCall("c", "read", '{"file": "a"}')
PUBLIC_CALL = {"id": "c", "name": "read", "arguments": '{"file": "a"}'}
BROKEN = ToolError("execution", SECRET, hint=SECRET, details={"key": SECRET})
USED = {
    "input_tokens": 10,
    "output_tokens": 5,
    "cached_input_tokens": None,
    "reasoning_tokens": None,
    "cache_write_tokens": None,
}
TOOL = Recorder("read").tool
ASKING = ApprovalRequest("c", "read", {"file": SECRET}, "write", True, SECRET)
FOUND = ToolResult("c", "read", "found", SECRET, value=SECRET, note=SECRET, arguments=SECRET)
ENDING = ToolLoopResult(
    reply="done",
    status="completed",
    status_reason=SECRET,
    tool_rounds=0,
    last_raw_content=SECRET,
    usage=Usage(10, 5),
    cost=0.5,
    history=(),
    stats=LoopStats(1, 0, 0.5),
    messages=(SAID,),
)

PUBLIC = [
    (
        RunStarted(
            turn=0,
            started=7.0,
            entry="loop",
            session_id=SECRET,
            question=Message.user(SECRET),
            options={"stop": [SECRET]},
            dialect=PromptDialect(),
            model=SECRET,
            gateway=Gateway("offline:teacher", api_key=SECRET),
            tools=(TOOL,),
        ),
        {"started": 7.0, "entry": "loop"},
    ),
    (TurnStarted(turn=1), {}),
    (
        Compacted(
            turn=1,
            usage=Usage(10, 5),
            cost=0.5,
            before=(SAID,),
            after=SAID,
            reason=SECRET,
            error=ServerFailed(SECRET),
        ),
        {"usage": USED},
    ),
    (
        RequestSent(
            turn=1,
            messages=(Message.system(SECRET), Message.user(SECRET)),
            keywords={"stop": (SECRET,)},
            tools=(TOOL,),
            dialect=PromptDialect(),
            gateway=None,
            last=True,
            selection=None,
            previous=(None, ()),
        ),
        {},
    ),
    (ReplyText(turn=1, text="Hel", delta="l"), {"text": "Hel", "delta": "l", "value": None}),
    (
        ReplyText(turn=1, text='{"n": 1', delta="", value={"n": 1}),
        {"text": '{"n": 1', "delta": "", "value": {"n": 1}},
    ),
    (
        ReplyReceived(turn=1, response=ChatResponse(SAID, "stop"), seconds=0.5),
        {"seconds": 0.5},
    ),
    (
        RequestFailed(turn=1, error=ServerFailed(SECRET), message=SAID, seconds=0.5, sent=True),
        {"error": {"type": "ServerFailed"}, "seconds": 0.5, "sent": True},
    ),
    (DecisionMade(turn=1, text=SECRET, calls=(READ,)), {"calls": [PUBLIC_CALL], "reply": None}),
    (DecisionMade(turn=1, text=SECRET, reply="done"), {"calls": [], "reply": "done"}),
    (
        FeedbackGiven(turn=1, text=SECRET, feedback=SECRET, issues=(Issue("/a", SECRET, "type"),)),
        {},
    ),
    (ToolCalled(turn=1, call=READ, tool=TOOL), {"call": PUBLIC_CALL}),
    (
        ApprovalDecided(turn=1, request=ASKING, about="call", verdict=Reject(SECRET), seconds=0.5),
        {
            "request": {"call_id": "c", "tool": "read", "effect": "write", "needs_approval": True},
            "about": "call",
            "verdict": {"type": "Reject"},
            "seconds": 0.5,
        },
    ),
    (ToolProgressed(turn=1, call=READ, value={"n": 1}), {"call": PUBLIC_CALL, "value": {"n": 1}}),
    (
        ToolRetried(turn=1, call=READ, error=BROKEN, attempt=2),
        {"call": PUBLIC_CALL, "error": {"kind": "execution"}, "attempt": 2},
    ),
    (ApprovalPending(turn=1, call=READ), {"call": PUBLIC_CALL}),
    (
        ToolAnswered(turn=1, result=FOUND, message=SAID, variable=SECRET),
        {
            "result": {
                "call_id": "c",
                "name": "read",
                "output": "found",
                "is_error": False,
                "status": "completed",
                "duration": 0.0,
                "attempts": 0,
                "cached": False,
            },
        },
    ),
    (TurnEnded(turn=1, usage=Usage(10, 5)), {"usage": USED}),
    (
        LoopEnded(turn=1, status="completed", reply="done", result=ENDING, usage=Usage(10, 5)),
        {"status": "completed", "reply": "done", "usage": USED, "tool_rounds": 0},
    ),
    (
        LoopEnded(turn=1, status="error", reply=None, result=None, error=ServerFailed(SECRET)),
        {
            "status": "error",
            "reply": None,
            "usage": dict.fromkeys(USED),
            "tool_rounds": 0,
        },
    ),
]


def common_fields(event):
    return {
        "name": event.name,
        "turn": event.turn,
        "run_id": "",
        "parent_run_id": None,
        "parent_call_id": None,
        "at": 0.0,
    }


@for_each("event, expected", PUBLIC)
def test_a_browser_receives_only_the_fields_of_the_allow_list(event, expected):
    plain = json.loads(event.to_json(public=True))
    assert plain == {**common_fields(event), **expected}


def test_the_allow_list_is_tested_for_every_event():
    tested = {type(event) for event, _ in PUBLIC} | {ReplyStreamed}
    assert tested == {*get_args(LoopEvent)}
    for kind in tested:
        assert {*kind.public} <= {each.name for each in fields(kind)}


def test_a_browser_receives_the_name_of_a_stream_event_only():
    stream = Gateway("offline:teacher").stream([Message.user("Hi.")])
    event = ReplyStreamed(turn=1, stream=stream)
    assert isinstance(event.stream, MessageStream)
    assert json.loads(event.to_json(public=True)) == common_fields(event)


def test_a_browser_receives_no_text_of_a_failed_result():
    failed = ToolResult("c", "read", f"Error (execution): {SECRET}", is_error=True, error=BROKEN)
    plain = json.loads(ToolAnswered(turn=1, result=failed).to_json(public=True))
    assert SECRET not in json.dumps(plain)
    assert plain["result"]["is_error"] is True
