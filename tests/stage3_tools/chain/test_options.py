"""Tests of the options of a chain, its callbacks and its events."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise

import pytest

from stage0_gateway import ChatResponse, Gateway, Message, ScriptedModel, ServerFailed, ToolCall
from stage1_context import ContextEngine, MessageHistory
from stage3_tools import (
    FinalReply,
    NativeDialect,
    PromptDialect,
    Tool,
    ToolCalls,
    ToolChainOptions,
    ToolRegistry,
    execute_tool_chain,
)
from tests.stage3_tools.conversation import (
    DONE,
    Native,
    Recorder,
    call,
    chat_of,
    native_calls,
    native_response,
    unused_chat,
)
from tests.tables import for_each


@pytest.fixture
def chain():
    """Run a chain, with the requests of the last run in `chain.requests`. All scripted replies must
    be used."""

    async def run(first, *tools, replies=("done",), streamed=False, **options):
        model = ScriptedModel(replies, piece=5)
        run.requests = model.requests
        async with Gateway("openai:m", transport=model, max_retries=0) as gateway:
            given = ToolChainOptions(gateway, stream=streamed, **options)
            return await execute_tool_chain(ToolRegistry(*tools), first, given)

    return run


# ---- requests


@for_each("streamed", [False, True])
async def test_model_settings_are_passed_to_the_request(chain, streamed):
    settings = {"temperature": 0.5, "max_tokens": 77, "reasoning": "low", "model": "openai:other"}
    await chain(native_calls(("f", {})), Recorder().tool, streamed=streamed, **settings)
    (request,) = chain.requests
    assert (request.temperature, request.max_tokens, request.model) == (0.5, 77, "other")
    assert request.reasoning == "low"


@for_each("named", [False, True])
async def test_a_function_is_sent_a_schema_if_its_gateway_is_named(named):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    model = ScriptedModel(['{"n": 1}'])
    async with Gateway("openai:m", transport=model, max_retries=0) as gateway:

        async def chat(messages, **options):
            return await gateway.chat(messages, **options)

        options = ToolChainOptions(chat, gateway=gateway if named else None, output_type=schema)
        warned = pytest.warns(UserWarning, match="The model of this run is unknown")
        with nullcontext() if named else warned:
            result = await execute_tool_chain(
                ToolRegistry(Recorder().tool), native_calls(("f", {})), options
            )
    assert result.output == {"n": 1}
    assert (model.requests[0].response_schema is not None) == named


async def test_unset_model_settings_are_not_passed():
    asked = []

    async def chat(messages, **settings):
        asked.append(settings)
        return ChatResponse(Message.assistant("done"), "stop")

    registry = ToolRegistry(Recorder().tool)
    await execute_tool_chain(registry, native_calls(("f", {})), ToolChainOptions(chat))
    await execute_tool_chain(
        registry, native_calls(("f", {})), ToolChainOptions(chat, temperature=0.0, model="a:b")
    )
    assert [sorted(each) for each in asked] == [["tools"], ["model", "temperature", "tools"]]
    assert (asked[1]["temperature"], asked[1]["model"]) == (0.0, "a:b")


@for_each("asynchronous", [False, True])
async def test_before_send_changes_one_request_only(chain, asynchronous):
    seen = []

    def shorter(messages, info):
        seen.append([each.role for each in messages])
        return [Message.user("Look."), *messages[-2:]] if len(seen) == 1 else None

    async def later(messages, info):
        return shorter(messages, info)

    given = {
        "replies": [native_calls(("f", {"x": 2})), "done"],
        "context_messages": [Message.user("Go.")],
    }
    before = later if asynchronous else shorter
    result = await chain(native_calls(("f", {})), Recorder().tool, before_send=before, **given)
    assert [[each.text for each in request.messages] for request in chain.requests] == [
        ["Look.", "", "ok"],
        ["Go.", "", "ok", "", "ok"],
    ]
    assert seen == [["user", "assistant", "tool"], ["user", *["assistant", "tool"] * 2]]
    assert [each.text for each in result.messages.complete] == ["Go.", "", "ok", "", "ok", "done"]


# ---- callbacks and events


async def test_callbacks_receive_calls_and_results_in_call_order(chain):
    received = []
    result = await chain(
        native_calls(("f", {"x": 1}), ("g", {}), ("f", {"x": 2})),
        Recorder().tool,
        on_tool_call_start=lambda name, arguments, call_id: received.append(
            (name, arguments, call_id)
        ),
        on_tool_call_complete=lambda result, call_id: received.append((result, call_id)),
    )
    results = [(each.result, each.id) for each in result.tool_call_history]
    assert received == [("f", {"x": 1}, "a"), ("g", {}, "b"), ("f", {"x": 2}, "c"), *results]
    assert [(each.output[:5], id) for each, id in results] == [
        ("ok", "a"),
        ("Error", "b"),
        ("ok", "c"),
    ]


@for_each("text", ["[1]", "{", "", "7", '{"x": NaN}', "[" * 9000])
async def test_arguments_that_are_not_an_object_are_passed_to_callbacks_as_text(chain, text):
    received = []
    first = Message.assistant("", [ToolCall("a", "f", text)])
    await chain(first, Recorder().tool, on_tool_call_start=lambda *each: received.append(each))
    assert received == [("f", text, "a")]


async def test_the_display_text_grows_with_replies_and_tool_states(chain):
    shown = []
    first = native_calls(("f", {}), ("none", {}), text="Let me look.")
    result = await chain(
        first, Recorder().tool, replies=["It is 22."], on_llm_response_update=shown.append
    )
    assert shown == [
        "Let me look.",
        "Let me look.\n\n[f …]",
        "Let me look.\n\n[f …]\n\n[none …]",
        "Let me look.\n\n[f ✓]\n\n[none …]",
        "Let me look.\n\n[f ✓]\n\n[none ✗ error]",
        "Let me look.\n\n[f ✓]\n\n[none ✗ error]\n\nIt is 22.",
    ]
    assert result.reply == "It is 22."


async def test_streamed_text_is_displayed_piece_by_piece(chain):
    shown = []
    replies = [native_calls(("f", {"x": 2}), text="Once more."), "It is 22 degrees."]
    given = {"replies": replies, "streamed": True, "on_llm_response_update": shown.append}
    result = await chain(native_calls(("f", {})), Recorder().tool, **given)
    assert shown[:2] == ["[f …]", "[f ✓]"]
    assert shown[-1] == "[f ✓]\n\nOnce more.\n\n[f ✓]\n\nIt is 22 degrees."
    last = [each.removeprefix("[f ✓]\n\nOnce more.\n\n[f ✓]\n\n") for each in shown[-4:]]
    assert last[-1] == "It is 22 degrees."
    assert all(longer.startswith(shorter) for shorter, longer in pairwise(last))
    assert len(set(shown)) == len(shown)
    assert (result.reply, result.usage.output_tokens) == ("It is 22 degrees.", 10)


async def test_a_truncated_reply_is_replaced_by_the_next_one_in_the_display(chain):
    shown = []
    cut = ChatResponse(Message.assistant("It is so"), "length")
    given = {"replies": [cut, "Fine."], "streamed": True, "on_llm_response_update": shown.append}
    await chain(native_calls(("f", {})), Recorder().tool, **given)
    assert shown[2:] == ["[f ✓]\n\nIt is", "[f ✓]\n\nIt is so", "[f ✓]", "[f ✓]\n\nFine."]


async def test_text_before_a_pause_stays_in_the_display():
    shown, model = [], ScriptedModel([ChatResponse(Message.assistant("One,"), "pause"), "two."])
    async with Gateway("anthropic:m", transport=model, max_retries=0) as gateway:
        options = ToolChainOptions(gateway, stream=True, on_llm_response_update=shown.append)
        result = await execute_tool_chain(
            ToolRegistry(Recorder().tool), native_calls(("f", {})), options
        )
    assert (shown[-1], result.reply) == ("[f ✓]\n\nOne,\n\ntwo.", "two.")


@for_each("streamed", [False, True])
async def test_the_raw_text_of_decisions_is_not_displayed(chain, streamed):
    shown = []
    first = Message.assistant(call())
    given = {
        "replies": [DONE],
        "streamed": streamed,
        "dialect": PromptDialect(),
    }
    await chain(first, Recorder().tool, on_llm_response_update=shown.append, **given)
    assert shown == ["[f …]", "[f ✓]", "[f ✓]\n\ndone"]


class Marked(Native):
    """A dialect of a program, in which the words for people follow a sign."""

    def read(self, response, registry):
        if response.tool_calls:
            return ToolCalls(response.message)
        return FinalReply(Message.assistant(self.visible_text(response.content)))

    def visible_text(self, partial_reply):
        return partial_reply.partition("> ")[2]


@for_each("streamed", [False, True])
async def test_the_words_of_a_dialect_of_a_program_are_displayed(chain, streamed):
    shown = []
    given = {"replies": ["thinking > It is 22."], "streamed": streamed, "dialect": Marked()}
    first = native_calls(("f", {}))
    result = await chain(first, Recorder().tool, on_llm_response_update=shown.append, **given)
    assert shown[:2] == ["[f …]", "[f ✓]"]
    assert (shown[-1], result.reply) == ("[f ✓]\n\nIt is 22.", "It is 22.")
    assert "thinking" not in "".join(shown)
    assert (len(shown) > 3) is streamed


@for_each("streamed", [False, True])
async def test_the_text_of_a_dialect_without_visible_text_is_displayed(chain, streamed):
    shown = []
    given = {"replies": ["It is 22."], "streamed": streamed, "dialect": Native()}
    first = native_calls(("f", {}))
    await chain(first, Recorder().tool, on_llm_response_update=shown.append, **given)
    assert shown[-1] == "[f ✓]\n\nIt is 22."


async def test_the_words_and_calls_of_a_run_inside_of_a_tool_are_not_displayed(chain):
    shown, started = [], []

    async def research(arguments, context):
        options = ToolChainOptions(chat_of(native_response()), **context.sub_run)
        first = Message.assistant("I look.", [ToolCall("x", "look", "{}")])
        return (await execute_tool_chain(ToolRegistry(Recorder("look").tool), first, options)).reply

    await chain(
        native_calls(("research", {})),
        Tool("research", execute=research, effect="read"),
        on_llm_response_update=shown.append,
        on_tool_call_start=lambda name, arguments, call_id: started.append(name),
    )
    assert started == ["research"]
    assert shown == ["[research …]", "[research ✓]", "[research ✓]\n\ndone"]


async def test_a_chain_emits_the_events_of_a_run_without_the_request_of_its_first_reply(chain):
    events = []
    result = await chain(native_calls(("f", {})), Recorder().tool, on_event=events.append)
    assert [event.name for event in events] == [
        *["run_start", "decision", "tool_call", "tool_result", "turn_end"],
        *["turn_start", "request", "reply_text", "reply", "decision", "turn_end", "loop_end"],
    ]
    assert [event.turn for event in events] == [*[0] * 5, *[1] * 7]
    assert (events[0].entry, events[0].question) == ("chain", None)
    assert (events[-1].status, events[-1].reply) == (result.status, "done")
    events.clear()
    await chain(native_calls(("f", {})), Recorder().tool, replies=[500], on_event=events.append)
    names = [event.name for event in events][-4:]
    assert names == ["turn_start", "request", "request_failed", "loop_end"]
    assert (events[-1].status, events[-1].reply, events[-1].result) == ("error", None, None)
    assert events[-1].error is events[-2].error
    assert type(events[-1].error) is ServerFailed


@for_each("callback", ["on_tool_call_start", "on_tool_call_complete", "on_llm_response_update"])
async def test_an_exception_of_a_callback_propagates_and_every_announced_call_has_a_result(
    chain, callback
):
    recorder, events = Recorder(effect="write"), []

    def broken(*received):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await chain(
            native_calls(("f", {}), ("f", {"x": 2})),
            recorder.tool,
            replies=(),
            **{callback: broken, "on_event": events.append},
        )
    # The raising callback comes first, so other listeners do not receive its event.
    assert [each.name for each in events].count("tool_call") <= 2
    assert len(recorder.seen) == (2 if callback == "on_tool_call_complete" else 0)


async def test_after_a_listener_raises_the_history_still_has_every_result():
    received, registry = [], ToolRegistry(Recorder().tool)

    def break_at_the_first_result(event):
        if event.name == "tool_result":
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await execute_tool_chain(
            registry,
            native_calls(("f", {}), ("f", {"x": 2})),
            ToolChainOptions(unused_chat, on_event=[break_at_the_first_result, received.append]),
        )
    results = [each.result for each in received if each.name == "tool_result"]
    assert [(each.call_id, each.output) for each in results] == [("a", "ok"), ("b", "ok")]
    assert (received[-1].name, received[-1].status) == ("loop_end", "error")


# ---- invalid options and defaults


@for_each(
    "given, why",
    [
        ({"check_tool_results": True}, "check_tool_results needs an approver"),
        ({"max_rounds": -1}, "max_tool_rounds is -1; it must be at least 0"),
        ({"max_parallel_tools": 0}, "max_parallel_tools is 0; it must be at least 1"),
        ({"variables_over": 199}, "variables_over is 199; it must be at least 200"),
    ],
)
def test_invalid_options_raise_when_they_are_created(given, why):
    with pytest.raises(ValueError, match=why):
        ToolChainOptions(unused_chat, **given)


def test_variables_must_be_a_transcript_not_a_store():
    with pytest.raises(
        TypeError, match=r"variables must be engine\.transcript\(session_id\), or None, not"
    ):
        ToolChainOptions(unused_chat, variables=ContextEngine().variables)


def test_max_rounds_is_an_alias_of_max_tool_rounds():
    for given in ({"max_rounds": 3}, {"max_tool_rounds": 3}):
        options = ToolChainOptions(unused_chat, **given)
        assert options.max_tool_rounds == replace(options, model="m").max_tool_rounds == 3


def test_the_defaults_are_the_native_dialect_and_previews():
    options = ToolChainOptions(unused_chat)
    assert isinstance(options.dialect, NativeDialect)
    assert (options.max_tool_rounds, options.variables_over, options.max_parallel_tools) == (
        10,
        4000,
        8,
    )


async def test_max_parallel_tools_limits_the_parallel_calls(chain):
    at_once, most = [], []

    async def watch(arguments):
        at_once.append(1)
        most.append(len(at_once))
        await asyncio.sleep(0)
        at_once.pop()
        return "ok"

    calls = native_calls(("f", {"x": 1}), ("f", {"x": 2}), ("f", {"x": 3}))
    await chain(calls, Tool("f", "", None, watch, effect="read"), max_parallel_tools=1)
    await chain(calls, Tool("f", "", None, watch, effect="read"))
    assert (most[:3], max(most[3:])) == ([1, 1, 1], 3)


def test_messages_of_a_history_may_be_mappings():
    options = ToolChainOptions(
        unused_chat, [{"role": "user", "content": "hi"}, Message.assistant("ho")]
    )
    assert options.context == (Message.user("hi"), Message.assistant("ho"))
    assert MessageHistory(options.context).check_history() == []
