"""Tests of the events of one request: its words for people, its reply, and its failure."""

import asyncio
import json
from itertools import pairwise

import httpx
import pytest
from pydantic import BaseModel

from stage0_gateway import (
    ChatResponse,
    Gateway,
    Message,
    ScriptedModel,
    ServerFailed,
    StreamInterrupted,
    ToolCall,
)
from stage3_tools import (
    Abort,
    FinalReply,
    NativeDialect,
    PromptDialect,
    ReplyText,
    RequestParts,
    RunLimits,
    RunStopped,
    Tool,
    ToolLoopDeps,
    run_tool_loop,
)
from tests.stage3_tools.conversation import Native, answer_in, call_in
from tests.tables import for_each

DIALECTS = {"native": NativeDialect, "prompt": PromptDialect}


class Asked:
    """A question to a scripted model, and the events of its run."""

    def __init__(self, *replies, streamed=False, piece=3, transport=None):
        self.model = ScriptedModel(replies, piece=piece)
        self.events = []
        self.gateway = Gateway("openai:m", transport=transport or self.model, max_retries=0)
        tool = Tool("f", execute=lambda arguments: "ok", effect="read")
        self.deps = ToolLoopDeps(self.gateway, tool_registry=[tool], stream=streamed)

    async def __call__(self, dialect, **options):
        session = await self.deps.context_engine.create_session()
        given = {"on_event": self.events.append, **options}
        try:
            return await run_tool_loop(self.deps, session, "Go.", dialect=dialect, **given)
        finally:
            await self.gateway.aclose()

    def named(self, *names):
        return [event for event in self.events if event.name in names]

    @property
    def names(self):
        return [event.name for event in self.events]


# ---- words for people


@for_each("name", DIALECTS)
async def test_a_whole_reply_is_one_event_with_its_words_before_the_reply(name):
    asked = Asked(answer_in(name, "It is 22."))
    await asked(DIALECTS[name]())
    assert asked.named("reply_text") == [ReplyText(turn=1, text="It is 22.", delta="It is 22.")]
    assert asked.names.index("reply_text") == asked.names.index("reply") - 1


@for_each("name", DIALECTS)
async def test_the_words_of_a_streamed_reply_arrive_piece_by_piece(name):
    text = 'He said: "It is 22 degrees",\nand left. ' * 3
    asked = Asked(answer_in(name, text), streamed=True)
    result = await asked(DIALECTS[name]())
    events = asked.named("reply_text")
    assert result.reply == events[-1].text == text
    assert len(events) > 3
    assert "".join(event.delta for event in events) == text
    assert all(longer.text == shorter.text + longer.delta for shorter, longer in pairwise(events))
    assert asked.names.index("reply_stream") < asked.names.index("reply_text")
    last = len(asked.names) - 1 - asked.names[::-1].index("reply_text")
    assert asked.names[last + 1] == "reply"


@for_each("streamed", [False, True])
@for_each("name", DIALECTS)
async def test_a_call_has_no_words_unless_the_model_writes_beside_it(name, streamed):
    asked = Asked(call_in(name), answer_in(name), streamed=streamed)
    await asked(DIALECTS[name]())
    assert {event.turn for event in asked.named("reply_text")} == {2}


@for_each("streamed", [False, True])
async def test_text_beside_native_calls_is_reported(streamed):
    first = Message.assistant("Let me look.", [ToolCall("c", "f", "{}")])
    asked = Asked(first, "Done.", streamed=streamed)
    await asked(NativeDialect())
    assert "".join(event.delta for event in asked.named("reply_text")) == "Let me look.Done."
    assert [event.text for event in asked.named("reply_text")][-1] == "Done."


@for_each("streamed", [False, True])
async def test_after_feedback_the_words_begin_anew(streamed):
    cut = ChatResponse(Message.assistant("It is so"), "length")
    asked = Asked(cut, "Fine.", streamed=streamed, piece=20)
    await asked(NativeDialect())
    assert [
        (each.name, getattr(each, "text", "")) for each in asked.named("reply_text", "feedback")
    ] == [
        ("reply_text", "It is so"),
        ("feedback", "It is so"),
        ("reply_text", "Fine."),
    ]
    assert [event.delta for event in asked.named("reply_text")] == ["It is so", "Fine."]


@for_each("streamed", [False, True])
async def test_the_whole_text_of_a_dialect_without_visible_text_is_reported(streamed):
    assert not hasattr(Native(), "visible_text")
    asked = Asked("It is 22.", streamed=streamed)
    await asked(Native())
    assert "".join(event.delta for event in asked.named("reply_text")) == "It is 22."


class Upper(Native):
    """A dialect of a program: the model writes for people behind a sign."""

    def render(self, transcript, registry, *, last=False):
        return RequestParts(tuple(transcript))

    def read(self, response, registry):
        return FinalReply(Message.assistant(self.visible_text(response.content)))

    def visible_text(self, partial_reply):
        return partial_reply.partition("> ")[2].upper()


@for_each("streamed", [False, True])
async def test_a_dialect_of_a_program_decides_what_its_words_are(streamed):
    asked = Asked("thinking about it > hello there", streamed=streamed)
    result = await asked(Upper())
    events = asked.named("reply_text")
    assert (result.reply, events[-1].text) == ("HELLO THERE", "HELLO THERE")
    assert "".join(event.delta for event in events) == "HELLO THERE"


async def test_words_that_a_dialect_takes_back_are_replaced_by_the_new_text():
    class Fickle(Native):
        def visible_text(self, partial_reply):
            return "wait" if len(partial_reply) < 20 else "sorry"

    asked = Asked("It is 22 degrees in Rome.", streamed=True)
    await asked(Fickle())
    assert [(event.text, event.delta) for event in asked.named("reply_text")] == [
        ("wait", "wait"),
        ("sorry", "sorry"),
    ]


class Weather(BaseModel):
    city: str
    temp: int


ROME = {"city": "Rome", "temp": 22}


@for_each("streamed", [False, True])
@for_each("name", DIALECTS)
async def test_with_an_output_type_the_partial_value_is_reported(name, streamed):
    text = json.dumps(ROME)
    reply = text if name == "native" else f'{{"tool": null, "reply": {text}}}'
    asked = Asked(reply, streamed=streamed)
    result = await asked(DIALECTS[name](), output_type=Weather)
    events = asked.named("reply_text")
    assert result.output == Weather(**ROME)
    assert [event.delta for event in events] == [""] * len(events)
    assert (events[-1].value, json.loads(events[-1].text)) == (ROME, ROME)
    assert all(before.value != after.value for before, after in pairwise(events))
    assert (len(events) > 1) is streamed
    if streamed:
        assert {*events[0].value} <= {"city"}


@for_each("streamed", [False, True])
async def test_no_words_are_looked_for_if_all_listeners_ignore_them(streamed):
    class Counting(Native):
        looks = 0

        def visible_text(self, partial_reply):
            self.looks += 1
            return partial_reply

    class Listener:
        ignores = frozenset({"reply_text"})

        def __init__(self):
            self.names = []

        def __call__(self, event):
            self.names.append(event.name)

    dialect, listener = Counting(), Listener()
    await Asked("It is 22.", streamed=streamed)(dialect, on_event=listener)
    assert (dialect.looks, "reply_text" in listener.names) == (0, False)
    assert "reply" in listener.names


@pytest.mark.parametrize("length", [2_000, pytest.param(40_000, marks=pytest.mark.long)])
async def test_a_long_streamed_reply_is_examined_in_proportion_to_its_length(length):
    class Counting(PromptDialect):
        examined = 0

        def visible_text(self, partial_reply):
            self.examined += len(partial_reply)
            return super().visible_text(partial_reply)

    dialect = Counting()
    asked = Asked(answer_in("prompt", "x" * length), streamed=True, piece=4)
    await asked(dialect)
    assert dialect.examined < 20 * length


@pytest.mark.parametrize("length", [2_000, pytest.param(40_000, marks=pytest.mark.long)])
@for_each("name", DIALECTS)
async def test_a_long_partial_value_is_reported_in_proportion_to_its_length(name, length):
    text = json.dumps({"city": "x" * length, "temp": 22})
    reply = text if name == "native" else f'{{"tool": null, "reply": {text}}}'
    asked = Asked(reply, streamed=True, piece=4)
    await asked(DIALECTS[name](), output_type=Weather)
    assert sum(len(event.text) for event in asked.named("reply_text")) < 20 * length


# ---- a request without a reply


@for_each("streamed", [False, True])
@for_each("name", DIALECTS)
async def test_each_request_is_followed_by_exactly_one_reply_or_failure(name, streamed):
    asked = Asked(call_in(name), 500, streamed=streamed)
    with pytest.raises(ServerFailed) as raised:
        await asked(DIALECTS[name]())
    outcomes = asked.named("request", "reply", "request_failed")
    assert [event.name for event in outcomes] == ["request", "reply", "request", "request_failed"]
    failed = outcomes[-1]
    assert (failed.error, failed.message, failed.sent) == (raised.value, None, True)
    assert 0 < failed.seconds <= failed.at - outcomes[-2].at
    assert asked.names[-2:] == ["request_failed", "loop_end"]


@for_each("name", DIALECTS)
async def test_a_broken_stream_reports_the_part_of_the_reply_that_arrived(name):
    class Breaking(httpx.AsyncBaseTransport):
        """A transport that truncates the response."""

        async def handle_async_request(self, request):
            response = await model.handle_async_request(request)
            body = await response.aread()
            headers = {"content-type": "text/event-stream"}
            return httpx.Response(200, headers=headers, content=body[: len(body) // 2])

    model = ScriptedModel([answer_in(name, "It is 22 degrees in Rome.")], piece=3)
    asked = Asked(streamed=True, transport=Breaking())
    with pytest.raises(StreamInterrupted):
        await asked(DIALECTS[name]())
    [failed] = asked.named("request_failed")
    whole = answer_in(name, "It is 22 degrees in Rome.")
    assert failed.sent
    assert whole.startswith(failed.message.text)
    assert 5 < len(failed.message.text) < len(whole)
    assert type(failed.error) is StreamInterrupted


@for_each("streamed", [False, True])
@for_each("name", ["request", "reply_stream"])
async def test_after_an_abort_by_a_listener_nothing_is_sent(name, streamed):
    if name == "reply_stream" and not streamed:
        return
    abort, asked = Abort(), Asked(streamed=streamed)

    def listen(event):
        asked.events.append(event)
        if event.name == name:
            abort.set("enough")

    result = await asked(NativeDialect(), on_event=listen, abort=abort)
    assert (result.status, result.status_reason) == ("aborted", "The run was aborted: enough")
    assert (asked.model.requests, asked.names[-2:]) == ([], ["request_failed", "loop_end"])
    [failed] = asked.named("request_failed")
    assert (type(failed.error), failed.message, failed.sent) == (RunStopped, None, False)
    assert result.messages == ()


@for_each("how", ["abort", "cancel"])
async def test_a_run_that_is_stopped_while_a_listener_of_the_request_waits_sends_nothing(how):
    abort, waiting, asked = Abort(), asyncio.Event(), Asked()

    async def wait_at_the_request(event):
        if event.name == "request":
            waiting.set()
            await asyncio.Event().wait()

    listeners = [asked.events.append, wait_at_the_request]
    running = asyncio.create_task(asked(NativeDialect(), on_event=listeners, abort=abort))
    await waiting.wait()
    abort.set() if how == "abort" else running.cancel()
    await asyncio.wait({running})
    assert (asked.model.requests, running.cancelled()) == ([], how == "cancel")
    assert asked.names == ["run_start", "turn_start", "request", "request_failed", "loop_end"]
    assert [event.sent for event in asked.named("request_failed")] == [False]


@for_each("how, status", [("abort", "aborted"), ("cancel", "cancelled"), ("time", "timeout")])
async def test_a_request_that_is_cancelled_has_failed(how, status):
    abort, begun, events = Abort(), asyncio.Event(), []

    async def chat(messages, **settings):
        begun.set()
        await asyncio.Event().wait()

    deps = ToolLoopDeps(chat)
    session = await deps.context_engine.create_session()
    limits = RunLimits(seconds=0.05) if how == "time" else None
    given = {"abort": abort, "limits": limits, "on_event": events.append}
    running = asyncio.create_task(run_tool_loop(deps, session, "Go.", **given))
    await begun.wait()
    if how == "abort":
        abort.set()
    elif how == "cancel":
        running.cancel()
    await asyncio.wait({running})
    assert [event.name for event in events] == [
        *("run_start", "turn_start", "request", "request_failed", "loop_end")
    ]
    assert (type(events[3].error), events[3].sent) == (asyncio.CancelledError, True)
    assert events[4].status == status


async def test_a_listener_of_the_request_that_raises_prevents_it():
    asked, others = Asked(), []

    def listen(event):
        if event.name == "request":
            raise LookupError("broken")

    with pytest.raises(LookupError, match="broken") as raised:
        await asked(NativeDialect(), on_event=[listen, others.append])
    assert asked.model.requests == []
    assert [event.name for event in others] == [
        *("run_start", "turn_start", "request", "request_failed", "loop_end")
    ]
    assert (others[3].error, others[3].sent) == (raised.value, False)


async def test_a_failure_of_a_chat_function_has_its_exception():
    events = []

    async def chat(messages, **settings):
        raise ConnectionError("away")

    deps = ToolLoopDeps(chat)
    session = await deps.context_engine.create_session()
    with pytest.raises(ConnectionError) as raised:
        await run_tool_loop(deps, session, "Go.", on_event=events.append)
    assert [event.error for event in events[-2:]] == [raised.value] * 2
