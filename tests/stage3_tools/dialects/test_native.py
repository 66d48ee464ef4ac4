import json
from dataclasses import replace

import httpx
import pytest

from stage0_gateway import (
    ChatResponse,
    Gateway,
    ImagePart,
    Message,
    ProviderPart,
    ScriptedModel,
    StreamInterrupted,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolSpec,
    Usage,
)
from stage1_context import ContextEngine, SqliteStore
from stage2_output import OutputController
from stage3_tools import (
    LAST_REQUEST,
    FinalReply,
    InvalidReply,
    NativeDialect,
    PromptDialect,
    Tool,
    ToolCalls,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    run_tool_loop,
)
from tests.stage3_tools.conversation import Conversation, Recorder
from tests.tables import for_each

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NO_PARAMETERS = {"type": "object", "properties": {}}
IMAGE = ImagePart("aGk=", "image/png")
WIRES = ["openai", "anthropic", "gemini", "openai-responses"]
on_every_wire = for_each("wire", WIRES)


def tool(name, description="", parameters=None, execute=lambda arguments: "ok"):
    return Tool(name, description, parameters, execute, effect="read")


def asks(*calls, text=""):
    return Message.assistant(text, calls)


def a_call(id="c1", name="f", arguments="{}", **rest):
    return ToolCall(id, name, arguments, **rest)


class ProviderConversation(Conversation):
    """One session with a provider, in the native dialect by default."""

    def __init__(self, wire, replies, tools, *, streamed=False, store=None):
        super().__init__(replies, tools, store=store)
        self.gateway = Gateway(f"{wire}:m", transport=self.model, max_retries=0)
        self.deps = ToolLoopDeps(
            self.gateway, self.engine, OutputController(), self.registry, stream=streamed
        )

    async def ask(self, question="Go.", **options):
        return await super().ask(question, **{"dialect": NativeDialect(), **options})

    @property
    def offered(self):
        """Return the names of the tools in each request."""
        return [[spec.name for spec in request.tools] for request in self.model.requests]

    def sent_messages(self, number=-1):
        """Return the messages of one request body."""
        body = self.model.bodies[number]
        fields = ("messages", "contents", "input")
        return next(body[field] for field in fields if field in body)


@pytest.fixture
async def new_conversation():
    """Create conversations. At the end, all of their scripted replies must be used."""
    made = []

    def make(wire, replies, *tools, **rest):
        made.append(ProviderConversation(wire, replies, tools, **rest))
        return made[-1]

    yield make
    for each in made:
        each.model.assert_finished()
        await each.gateway.aclose()


# ---- the dialect alone


def test_tools_of_the_registry_are_rendered_as_tool_specs():
    registry = ToolRegistry(tool("get_weather", "Tells it.", CITY), tool("天气.now"))
    assert NativeDialect().render([], registry).tools == (
        ToolSpec("get_weather", "Tells it.", CITY),
        ToolSpec("天气.now", "", NO_PARAMETERS),
    )


def test_the_history_is_rendered_unchanged():
    history = [
        Message.system("Be brief."),
        Message.user("[Tool result for f]"),
        Message.assistant("hm", [a_call()], raw_text='{"tool": "f"}'),
        Message.tool((TextPart("a"), IMAGE), "c1", name="f", is_error=True),
    ]
    assert NativeDialect().render(history, ToolRegistry()).messages == tuple(history)


def test_without_tools_the_description_and_the_tool_list_are_empty():
    dialect = NativeDialect()
    assert (dialect.describe(ToolRegistry()), dialect.render([], ToolRegistry()).tools) == ("", ())


def test_the_description_contains_everything_that_is_sent_about_the_tools():
    described = NativeDialect().describe(ToolRegistry(tool("天气", "Tells it.", CITY), tool("f")))
    assert [*map(json.loads, described.splitlines())] == [
        {"name": "天气", "description": "Tells it.", "parameters": CITY},
        {"name": "f", "description": "", "parameters": {}},
    ]
    assert "天气" in described


def test_a_change_of_the_registry_affects_the_next_request():
    dialect, registry = NativeDialect(), ToolRegistry(tool("f"))
    registry.register(tool("g"))
    assert [spec.name for spec in dialect.render([], registry).tools] == ["f", "g"]
    registry.unregister("f")
    assert json.loads(dialect.describe(registry))["name"] == "g"


def test_a_response_is_read_as_its_calls_or_else_as_the_final_reply():
    message = asks(a_call("", "nope", "{"), a_call("", "f"), text="I look.")
    reply = Message.assistant((ThinkingPart("hm"), TextPart("sun")))
    dialect = NativeDialect()
    assert dialect.read(ChatResponse(message, "tool_calls"), ToolRegistry()) == ToolCalls(message)
    assert dialect.read(ChatResponse(reply, "stop"), ToolRegistry()) == FinalReply(reply)


@for_each("reason", ["stop", "unknown", "tool_calls", "pause"])
def test_calls_are_read_for_any_finish_reason(reason):
    assert NativeDialect().read(ChatResponse(asks(a_call()), reason), ToolRegistry()) == ToolCalls(
        asks(a_call())
    )


def test_text_that_looks_like_a_decision_is_a_reply():
    text = '{"tool": "f", "arguments": {}}'
    assert NativeDialect().read(
        ChatResponse(Message.assistant(text), "stop"), ToolRegistry()
    ) == FinalReply(Message.assistant(text))


@for_each("usage", [Usage(output_tokens=64), Usage(), None])
def test_a_truncated_reply_is_invalid_and_gets_the_feedback_of_the_prompt_dialect(
    usage,
):
    cut = ChatResponse(asks(a_call(), text="I look."), "length", usage=usage)
    reading = NativeDialect().read(cut, ToolRegistry())
    by_text = PromptDialect().read(
        replace(cut, message=Message.assistant("I look.")), ToolRegistry()
    )
    assert reading.message == Message.assistant("I look.")
    assert isinstance(reading, InvalidReply)
    assert reading.feedback == by_text.feedback.replace("one JSON object", "what matters most")
    assert reading.feedback.startswith("Your reply was cut off")
    assert ("after 64 tokens" in reading.feedback) is bool(usage and usage.output_tokens)


# ---- requests


@on_every_wire
async def test_tools_are_sent_in_the_format_of_the_provider(new_conversation, wire):
    conversation = new_conversation(
        wire, ["sun"], tool("get_weather", "Tells it.", CITY), tool("f")
    )
    await conversation.ask()
    (body,) = conversation.model.bodies
    assert (
        body["tools"]
        == {
            "openai": [
                {
                    "type": "function",
                    "function": {
                        "name": "get_weather",
                        "description": "Tells it.",
                        "parameters": CITY,
                    },
                },
                {
                    "type": "function",
                    "function": {"name": "f", "description": "", "parameters": NO_PARAMETERS},
                },
            ],
            "anthropic": [
                {"name": "get_weather", "description": "Tells it.", "input_schema": CITY},
                {"name": "f", "description": "", "input_schema": NO_PARAMETERS},
            ],
            "gemini": [
                {
                    "functionDeclarations": [
                        {
                            "name": "get_weather",
                            "description": "Tells it.",
                            "parametersJsonSchema": CITY,
                        },
                        {"name": "f", "description": "", "parametersJsonSchema": NO_PARAMETERS},
                    ]
                }
            ],
            "openai-responses": [
                {
                    "type": "function",
                    "name": "get_weather",
                    "description": "Tells it.",
                    "parameters": CITY,
                    "strict": False,
                },
                {
                    "type": "function",
                    "name": "f",
                    "description": "",
                    "parameters": NO_PARAMETERS,
                    "strict": False,
                },
            ],
        }[wire]
    )


@on_every_wire
async def test_a_tool_name_that_providers_reject_is_encoded_and_decoded(new_conversation, wire):
    recorder = Recorder("math.add")
    sent = "math_add_ecef409b"
    conversation = new_conversation(
        wire, [asks(a_call(name=sent, arguments='{"a": 1}')), "done"], recorder.tool
    )
    result = await conversation.ask()
    assert (conversation.offered, recorder.seen) == ([[sent]] * 2, [{"a": 1}])
    assert [record.name for record in result.history] == ["math.add"]
    assert (await conversation.history())[1].tool_calls[0].name == "math.add"
    assert [
        call.name
        for message in conversation.model.requests[1].messages
        for call in message.tool_calls
    ] == [sent]


@on_every_wire
async def test_tools_may_be_added_and_removed_between_two_turns(new_conversation, wire):
    def change(arguments):
        conversation.registry.register(tool("new"))
        conversation.registry.unregister("old")
        return "changed"

    replies = [
        asks(a_call(name="change")),
        asks(a_call("c2", "new")),
        asks(a_call("c3", "old")),
        "done",
    ]
    conversation = new_conversation(wire, replies, tool("change", execute=change), tool("old"))
    result = await conversation.ask()
    assert conversation.offered == [["change", "old"], *[["change", "new"]] * 3]
    assert [record.result.status for record in result.history] == [
        "completed",
        "completed",
        "error",
    ]
    assert (result.status, await conversation.problems()) == ("completed", [])


@on_every_wire
async def test_before_send_may_change_each_request(new_conversation, wire):
    def shorter(messages):
        return [message for message in messages if message.text != "secret"]

    conversation = new_conversation(wire, [asks(a_call()), "done"], Recorder(returns="secret").tool)
    await conversation.ask(
        before_send=lambda messages, info: [Message.system("Be brief."), *messages]
    )
    assert [request.messages[0].text for request in conversation.model.requests] == [
        "Be brief."
    ] * 2
    assert conversation.offered == [["f"]] * 2
    assert [message.role for message in await conversation.history()] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


@for_each("dialect", [NativeDialect(), PromptDialect()])
async def test_before_send_receives_the_turn_the_tools_and_whether_the_request_is_the_last(
    new_conversation, dialect
):
    infos, call = [], '{"tool": "f"}' if isinstance(dialect, PromptDialect) else asks(a_call())
    answer = '{"tool": null, "reply": "done"}' if isinstance(dialect, PromptDialect) else "done"
    conversation = new_conversation("openai", [call, answer], Recorder().tool)

    def before_send(messages, info):
        infos.append((info.turn, info.tools[0].name, info.last))

    result = await conversation.ask(before_send=before_send, dialect=dialect, max_tool_rounds=1)
    assert infos == [(1, "f", False), (2, "f", True)]
    assert (result.status, result.reply) == ("max_rounds", "done")
    assert LAST_REQUEST in conversation.model.requests[-1].messages[0].text


@on_every_wire
async def test_the_last_request_still_lists_the_tools_for_servers_that_require_it(wire):
    rejected = []

    def strict(request):
        body = json.loads(request.content)
        if "f" in request.content.decode() and "tools" not in body:
            rejected.append(body)
        return model.handle_async_request(request)

    class Strict(httpx.AsyncBaseTransport):
        handle_async_request = staticmethod(strict)

    model = ScriptedModel([asks(a_call()), "so far"])
    async with Gateway(f"{wire}:m", api_key="k", transport=Strict()) as gateway:
        engine = ContextEngine()
        deps = ToolLoopDeps(gateway, engine, OutputController(), ToolRegistry(Recorder().tool))
        options = ToolLoopOptions(dialect=NativeDialect(), max_tool_rounds=1)
        result = await run_tool_loop(deps, await engine.create_session(), "Go.", options)
    assert (result.reply, rejected) == ("so far", [])


# ---- calls and results

RESULTS = {
    "openai": [
        {"role": "tool", "content": "one", "tool_call_id": "c1"},
        {"role": "tool", "content": "Error (execution): ValueError: no", "tool_call_id": "c2"},
        {"role": "tool", "content": '{"celsius":22}', "tool_call_id": "c3"},
    ],
    "anthropic": [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
                {
                    "type": "tool_result",
                    "tool_use_id": "c2",
                    "content": "Error (execution): ValueError: no",
                    "is_error": True,
                },
                {"type": "tool_result", "tool_use_id": "c3", "content": '{"celsius":22}'},
            ],
        }
    ],
    "gemini": [
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "a", "id": "c1", "response": {"output": "one"}}},
                {
                    "functionResponse": {
                        "name": "b",
                        "id": "c2",
                        "response": {"error": "Error (execution): ValueError: no"},
                    }
                },
                {
                    "functionResponse": {
                        "name": "a",
                        "id": "c3",
                        "response": {"output": '{"celsius":22}'},
                    }
                },
            ],
        }
    ],
    "openai-responses": [
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {
            "type": "function_call_output",
            "call_id": "c2",
            "output": "Error (execution): ValueError: no",
        },
        {"type": "function_call_output", "call_id": "c3", "output": '{"celsius":22}'},
    ],
}


@on_every_wire
async def test_results_are_sent_in_call_order_with_their_ids_and_errors_are_marked(
    new_conversation, wire
):
    def fail(arguments):
        raise ValueError("no")

    answers = {1: "one", 3: {"celsius": 22}}
    tools = [tool("a", execute=lambda arguments: answers[arguments["n"]]), tool("b", execute=fail)]
    calls = [a_call("c1", "a", '{"n": 1}'), a_call("c2", "b"), a_call("c3", "a", '{"n": 3}')]
    conversation = new_conversation(wire, [asks(*calls, text="I look."), "done"], *tools)
    result = await conversation.ask()
    assert conversation.sent_messages()[-len(RESULTS[wire]) :] == RESULTS[wire]
    assert (result.status, result.tool_rounds, await conversation.problems()) == (
        "completed",
        1,
        [],
    )
    decision = next(event for event in conversation.events if event.name == "decision")
    assert (decision.text, [call.id for call in decision.calls]) == ("I look.", ["c1", "c2", "c3"])


PICTURES = {
    "openai": [
        {
            "role": "tool",
            "content": "the map\n[Image 1 follows in the next user message.]",
            "tool_call_id": "c1",
        },
        {"role": "tool", "content": "ok", "tool_call_id": "c2"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Image 1 of the result of draw (c1):"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ],
        },
    ],
    "anthropic": [
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "content": [
                        {"type": "text", "text": "the map"},
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
                        },
                    ],
                },
                {"type": "tool_result", "tool_use_id": "c2", "content": "ok"},
            ],
        }
    ],
    "gemini": [
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "name": "draw",
                        "id": "c1",
                        "response": {"output": "the map"},
                    }
                },
                {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
                {"functionResponse": {"name": "f", "id": "c2", "response": {"output": "ok"}}},
            ],
        }
    ],
    "openai-responses": [
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [
                {"type": "input_text", "text": "the map"},
                {
                    "type": "input_image",
                    "image_url": "data:image/png;base64,aGk=",
                    "detail": "auto",
                },
            ],
        },
        {"type": "function_call_output", "call_id": "c2", "output": "ok"},
    ],
}


@on_every_wire
async def test_an_image_in_a_result_is_sent_to_the_model(new_conversation, wire):
    draw = tool("draw", execute=lambda arguments: ["the map", IMAGE])
    conversation = new_conversation(
        wire, [asks(a_call("c1", "draw"), a_call("c2")), "done"], draw, tool("f")
    )
    await conversation.ask()
    assert conversation.sent_messages()[-len(PICTURES[wire]) :] == PICTURES[wire]
    assert (await conversation.history())[2] == Message.tool(
        (TextPart("the map"), IMAGE), "c1", name="draw"
    )


@on_every_wire
@for_each("ids", [("", ""), ("x", "x"), ("x", "")])
async def test_repeated_or_missing_call_ids_are_made_unique(new_conversation, wire, ids):
    recorder = Recorder()
    turns = [
        asks(*(a_call(id, "f", f'{{"n": {turn}{at}}}') for at, id in enumerate(ids)))
        for turn in (1, 2)
    ]
    conversation = new_conversation(wire, [*turns, "done"], recorder.tool)
    result = await conversation.ask()
    assert recorder.seen == [{"n": n} for n in (10, 11, 20, 21)]
    made = [record.id for record in result.history]
    assert (len({*made, ""}), await conversation.problems()) == (5, [])
    assert [
        message.tool_call_id for message in await conversation.history() if message.role == "tool"
    ] == made


def written(text, wires=WIRES):
    """Return rows for these providers; only OpenAI sends arguments as text, which may be invalid
    JSON."""
    return [(wire, text) for wire in wires]


@for_each(
    "wire, arguments",
    [
        *written("{"),
        *written("[]"),
        *written('"x"'),
        *written("5"),
        *written('{"city": "Oslo"'),
        *written('{"city": NaN}'),
        *written('{"city": "a", "city": "b"}', ["openai"]),
    ],
)
async def test_arguments_that_are_not_a_json_object_get_an_error_result(
    new_conversation, wire, arguments
):
    recorder = Recorder(parameters=CITY)
    bad, good = a_call(arguments=arguments), a_call("c2", arguments='{"city": "Oslo"}')
    conversation = new_conversation(wire, [asks(bad), asks(good), "done"], recorder.tool)
    result = await conversation.ask()
    first, second = (record.result for record in result.history)
    assert (first.is_error, first.error.kind, second.output) == (True, "validation", "ok")
    assert first.output.startswith("Error (validation): ")
    assert (recorder.seen, result.status, result.tool_rounds) == (
        [{"city": "Oslo"}],
        "completed",
        1,
    )
    assert await conversation.problems() == []


@on_every_wire
async def test_an_unknown_tool_gets_an_error_that_lists_the_available_tools(new_conversation, wire):
    recorder = Recorder("math.add")
    conversation = new_conversation(
        wire, [asks(a_call(name="math.ad")), asks(a_call("c2", "math.add")), "done"], recorder.tool
    )
    result = await conversation.ask()
    assert [record.result.output for record in result.history] == [
        "Error (not_found): There is no tool named 'math.ad'. Available tools: math.add.\n"
        "Did you mean math.add?",
        "ok",
    ]
    assert recorder.seen == [{}]


@on_every_wire
async def test_a_long_result_becomes_a_variable_with_a_tool_to_read_it(new_conversation, wire):
    conversation = new_conversation(
        wire, [asks(a_call()), asks(a_call("c2")), "done"], Recorder(returns="x" * 5_000).tool
    )
    await conversation.ask()
    assert conversation.offered == [["f"], *[["f", "read_variable"]] * 2]
    for message in conversation.model.requests[2].messages:
        if message.role == "tool":
            assert message.text.startswith("x" * 200 + "…\n[5000 characters in $VAR_REF{{")
    assert await conversation.problems() == []


# ---- provider data

SIGNED = {"anthropic": {"signature": "Er0C+/==\n晴"}}


async def test_signed_thinking_of_anthropic_is_sent_back_unchanged(new_conversation):
    thought = ThinkingPart("Let me\n look …", SIGNED)
    hidden = ProviderPart("anthropic", {"type": "redacted_thinking", "data": "EmwK"})
    reply = Message.assistant(
        (thought, hidden, TextPart("I look.")), [a_call("toolu_1"), a_call("toolu_2")]
    )
    conversation = new_conversation("anthropic", [reply, "done", "bye"], Recorder().tool)
    await conversation.ask()
    await conversation.ask("And now?")
    blocks = [
        {"type": "thinking", "thinking": "Let me\n look …", "signature": "Er0C+/==\n晴"},
        {"type": "redacted_thinking", "data": "EmwK"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
        {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {}},
    ]
    assert [body["messages"][1]["content"] for body in conversation.model.bodies[1:]] == [
        blocks,
        blocks,
    ]


async def test_thought_signatures_of_gemini_are_sent_back_with_their_parts(new_conversation):
    signed = a_call("call_0", provider_data={"gemini": {"thoughtSignature": "CsY=="}})
    text = TextPart("I look.", provider_data={"gemini": {"thoughtSignature": "AbC="}})
    conversation = new_conversation(
        "gemini",
        [Message.assistant((text,), [signed, a_call("call_1")]), "done"],
        Recorder().tool,
    )
    await conversation.ask()
    assert conversation.sent_messages()[1] == {
        "role": "model",
        "parts": [
            {"text": "I look.", "thoughtSignature": "AbC="},
            {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "CsY=="},
            {"functionCall": {"name": "f", "args": {}}},
        ],
    }


async def test_signatures_survive_a_restart_and_a_question_in_the_other_dialect(
    new_conversation, tmp_path
):
    reply = Message.assistant((ThinkingPart("hm", SIGNED),), [a_call("toolu_1")])
    file = SqliteStore(tmp_path / "sessions.db")
    first = new_conversation("anthropic", [reply, "done"], Recorder().tool, store=file)
    await first.ask()
    await file.aclose()
    file = SqliteStore(tmp_path / "sessions.db")
    second = new_conversation(
        "anthropic", ['{"tool": null, "reply": "by text"}', "bye"], Recorder().tool, store=file
    )
    await second.ask(dialect=PromptDialect())
    await second.ask()
    await file.aclose()
    by_text, native = (body["messages"][1]["content"] for body in second.model.bodies)
    assert by_text == '{"tool": "f", "arguments": {}}'
    assert native == [
        {"type": "thinking", "thinking": "hm", "signature": "Er0C+/==\n晴"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
    ]


# ---- truncated, refused, paused and empty replies


def given_feedback(text):
    return Message("user", f"[Feedback]\n{text}", name="feedback")


@on_every_wire
@for_each("text", ["I look.", ""])
async def test_calls_in_a_truncated_reply_do_not_run_and_the_model_gets_feedback(
    new_conversation, wire, text
):
    recorder = Recorder()
    cut = ChatResponse(asks(a_call(arguments='{"n": 1}'), text=text), "length", usage=Usage(3, 64))
    conversation = new_conversation(
        wire, [cut, asks(a_call(arguments='{"n": 2}')), "done"], recorder.tool
    )
    result = await conversation.ask()
    feedback = (
        "Your reply was cut off after 64 tokens, so nothing in it was used. "
        "Answer again, shorter: what matters most."
    )
    assert (recorder.seen, result.status, result.tool_rounds) == ([{"n": 2}], "completed", 1)
    stored = [Message.assistant(text)] if text else []
    assert (await conversation.history())[1 : 2 + len(stored)] == [
        *stored,
        given_feedback(feedback),
    ]
    assert [event.feedback for event in conversation.events if event.name == "feedback"] == [
        feedback
    ]
    assert await conversation.problems() == []


@on_every_wire
async def test_repeated_truncated_replies_end_the_run(new_conversation, wire):
    cut = ChatResponse(Message.assistant("It is"), "length")
    conversation = new_conversation(wire, [cut] * 3, Recorder().tool)
    result = await conversation.ask()
    assert (result.status, result.reply, result.last_raw_content) == ("parse_failed", None, "It is")


@on_every_wire
async def test_a_refusal_ends_the_run_without_running_its_calls(new_conversation, wire):
    recorder = Recorder()
    refused = ChatResponse(asks(a_call(), text="I will not."), "refusal")
    conversation = new_conversation(wire, [refused, "Hello."], recorder.tool)
    result = await conversation.ask()
    assert (result.status, result.reply, result.status_reason) == ("refused", None, "I will not.")
    assert (recorder.seen, await conversation.problems()) == ([], [])
    assert (await conversation.ask("Hello?")).reply == "Hello."


SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "sun"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srv_1",
    "content": [{"type": "x", "y": "晴"}],
}


@for_each("parts, blocks", [
        ((TextPart("I search."), ProviderPart("anthropic", SEARCH)), [{"type": "text", "text": "I search."}]),
        ((ProviderPart("anthropic", SEARCH),), []),
        ((ThinkingPart("hm", SIGNED), ProviderPart("anthropic", SEARCH)), [
            {"type": "thinking", "thinking": "hm", "signature": "Er0C+/==\n晴"}
        ]),
    ])  # fmt: skip
async def test_a_paused_reply_is_sent_back_unchanged(new_conversation, parts, blocks):
    paused = ChatResponse(Message.assistant((*parts, ProviderPart("anthropic", FOUND))), "pause")
    conversation = new_conversation("anthropic", [paused, "done"], Recorder().tool)
    result = await conversation.ask()
    assert (result.status, result.reply) == ("completed", "done")
    assert conversation.sent_messages()[1:] == [
        {"role": "assistant", "content": [*blocks, SEARCH, FOUND]}
    ]


@for_each("pauses, status, reply", [(5, "completed", "done"), (6, "limit", None)])
async def test_a_paused_reply_is_continued_at_most_five_times(
    new_conversation, pauses, status, reply
):
    paused = ChatResponse(Message.assistant((ProviderPart("anthropic", SEARCH),)), "pause")
    conversation = new_conversation(
        "anthropic", [*[paused] * pauses, *(["done"] if reply else [])], Recorder().tool
    )
    result = await conversation.ask()
    assert (result.status, result.reply, len(conversation.model.requests)) == (status, reply, 6)


async def test_calls_in_a_paused_reply_run(new_conversation):
    recorder = Recorder()
    paused = ChatResponse(
        Message.assistant((ProviderPart("anthropic", SEARCH),), [a_call("toolu_1")]), "pause"
    )
    conversation = new_conversation("anthropic", [paused, "done"], recorder.tool)
    assert (await conversation.ask()).tool_rounds == 1
    assert (recorder.seen, await conversation.problems()) == ([{}], [])


@on_every_wire
@for_each("rounds", [0, 1])
async def test_an_empty_reply_is_requested_once_more_and_without_calls_after_results(
    new_conversation, wire, rounds
):
    conversation = new_conversation(wire, [*[asks(a_call())] * rounds, "", "done"], Recorder().tool)
    result = await conversation.ask()
    assert (result.status, result.reply, result.tool_rounds) == ("completed", "done", rounds)
    assert conversation.offered == [["f"]] * (rounds + 2)
    assert conversation.model.requests[-1].tool_choice == ("none" if rounds else None)
    assert conversation.model.requests[-1].messages[-1] == Message.user(
        "[Feedback]\nYour reply was empty. Answer the user."
    )
    assert all(message.content or message.tool_calls for message in await conversation.history())


@on_every_wire
async def test_two_empty_replies_in_a_row_end_the_run_with_an_empty_reply(new_conversation, wire):
    conversation = new_conversation(wire, ["", " \n"], Recorder().tool)
    result = await conversation.ask()
    assert (result.status, result.reply, result.status_reason) == (
        "completed",
        "",
        "The model's reply was empty, twice.",
    )


async def test_a_reply_of_thoughts_only_counts_as_empty(new_conversation):
    conversation = new_conversation(
        "anthropic", [Message.assistant((ThinkingPart("hm", SIGNED),)), "done"], Recorder().tool
    )
    assert (await conversation.ask()).reply == "done"
    assert [message.text for message in await conversation.history()][-1] == "done"


# ---- the round limit


@on_every_wire
@for_each("rounds", [0, 1, 3])
async def test_the_last_request_lists_the_tools_and_forbids_calls(new_conversation, wire, rounds):
    recorder = Recorder()
    calls = [asks(a_call(f"c{n}", "f", f'{{"n": {n}}}')) for n in range(rounds)]
    conversation = new_conversation(wire, [*calls, "so far"], recorder.tool)
    result = await conversation.ask(max_tool_rounds=rounds)
    assert (result.status, result.reply, result.tool_rounds) == ("max_rounds", "so far", rounds)
    assert recorder.seen == [{"n": n} for n in range(rounds)]
    assert conversation.offered == [["f"]] * (rounds + 1)
    assert ["tools" in body for body in conversation.model.bodies] == [True] * (rounds + 1)
    choices = [request.tool_choice for request in conversation.model.requests]
    assert choices == [*[None] * rounds, "none"]
    asked_to_answer = [
        LAST_REQUEST in request.messages[0].text for request in conversation.model.requests
    ]
    assert asked_to_answer == [*[False] * rounds, True]
    assert await conversation.problems() == []


@on_every_wire
@for_each("text", ["It is sunny.", ""])
async def test_a_call_in_the_last_reply_is_dropped(new_conversation, wire, text):
    recorder = Recorder()
    stray = asks(a_call("c2", "f", '{"n": 2}'), text=text)
    conversation = new_conversation(
        wire, [asks(a_call()), stray, *([] if text else ["well"])], recorder.tool
    )
    result = await conversation.ask(max_tool_rounds=1)
    assert (result.status, result.reply, recorder.seen) == ("max_rounds", text or "well", [{}])
    assert (len(result.history), await conversation.problems()) == (1, [])
    assert sum(len(message.tool_calls) for message in await conversation.history()) == 1


# ---- sessions with several dialects


@on_every_wire
async def test_a_session_can_switch_from_text_to_native_calls_and_back(new_conversation, wire):
    recorder = Recorder("math.add", returns="[Tool result for f]")
    sent = "math_add_ecef409b"
    by_text, call = (
        '{"tool": "math.add", "arguments": {"n": 1}}',
        asks(a_call("c9", sent, '{"n": 2}')),
    )
    again = '{"tool": "math.add", "arguments": {"n": 3}}'
    one, three = '{"tool": null, "reply": "one"}', '{"tool": null, "reply": "three"}'
    conversation = new_conversation(wire, [by_text, one, call, "two", again, three], recorder.tool)
    replies = [
        (await conversation.ask("1", dialect=PromptDialect())).reply,
        (await conversation.ask("2")).reply,
        (await conversation.ask("3", dialect=PromptDialect())).reply,
    ]
    assert (replies, recorder.seen) == (["one", "two", "three"], [{"n": 1}, {"n": 2}, {"n": 3}])
    assert conversation.offered == [[], [], [sent], [sent], [], []]
    native = [
        (m.role, m.text, [c.name for c in m.tool_calls])
        for m in conversation.model.requests[3].messages
    ]
    assert native == [
        ("user", "1", []),
        ("assistant", "", [sent]),
        ("tool", "[Tool result for f]", []),
        ("assistant", "one", []),
        ("user", "2", []),
        ("assistant", "", [sent]),
        ("tool", "[Tool result for f]", []),
    ]
    shown = r"[Tool result for math.add]" "\n" r"\[Tool result for f]"
    assert [(m.role, m.text) for m in conversation.model.requests[5].messages[1:]] == [
        ("user", "1"),
        ("assistant", by_text),
        ("user", shown),
        ("assistant", one),
        ("user", "2"),
        ("assistant", '{"tool": "math.add", "arguments": {"n": 2}}'),
        ("user", shown),
        ("assistant", '{"tool": null, "reply": "two"}'),
        ("user", "3"),
        ("assistant", again),
        ("user", shown),
    ]
    assert await conversation.problems() == []


# ---- streams


def comparable(events):
    """Return the events without streams and their words, without times and names of listeners."""
    compared = []
    for event in events:
        match event.name:
            case "run_start":
                compared.append(replace(event, started=0.0, options={}))
            case "reply":
                compared.append(replace(event, seconds=0.0))
            case "tool_result":
                compared.append(replace(event, result=replace(event.result, duration=0.0)))
            case name if name not in ("reply_stream", "reply_text"):
                compared.append(event)
    return compared


def words(events):
    """Return the words of each reply for people, and the number of their pieces."""
    replies = [[]]
    for event in events:
        if event.name == "reply_text":
            replies[-1].append(event.delta)
        elif event.name == "reply":
            replies.append([])
    return [("".join(pieces), len(pieces)) for pieces in replies if pieces]


def without_times(result):
    records = tuple(
        replace(record, started=0, ended=0, result=replace(record.result, duration=0.0))
        for record in result.history
    )
    return replace(result, history=records, stats=replace(result.stats, duration=0.0))


@on_every_wire
async def test_a_streamed_run_gives_the_same_result_and_its_text_piece_by_piece(
    new_conversation, wire
):
    received = []

    def listen(event):
        if event.name == "reply_stream":
            received.append([])
            event.stream.on("text", lambda piece, pieces=received[-1]: pieces.append(piece.delta))

    signed = {wire: {"signature": "s1"}} if wire == "anthropic" else None
    thought = (ThinkingPart("Let me look.", signed),) if signed else ()
    calls = [a_call("call_0", "f", '{"city": "上海"}'), a_call("call_1", "f", '{"city": "Oslo"}')]
    replies = [
        Message.assistant((*thought, TextPart("I am looking.")), calls),
        "It is sunny in 上海.",
    ]
    tool, dialect = Recorder(parameters=CITY).tool, NativeDialect()
    whole = new_conversation(wire, replies, tool)
    streamed = new_conversation(wire, replies, tool, streamed=True)
    expected = await whole.ask(dialect=dialect)
    result = await streamed.ask(dialect=dialect, on_event=[streamed.events.append, listen])
    assert without_times(result) == without_times(expected)
    assert comparable(streamed.events) == comparable(whole.events)
    assert await streamed.history() == await whole.history()
    assert [event.name for event in streamed.events].count("reply_stream") == 2
    texts = ["I am looking.", "It is sunny in 上海."]
    assert ["".join(pieces) for pieces in received] == texts
    assert min(map(len, received)) > 1
    assert words(whole.events) == [(text, 1) for text in texts]
    assert words(streamed.events) == [
        (text, len(pieces)) for text, pieces in zip(texts, received, strict=True)
    ]


class Breaking(httpx.AsyncBaseTransport):
    """A transport that truncates the first response."""

    def __init__(self, model):
        self._model = model

    async def handle_async_request(self, request):
        response = await self._model.handle_async_request(request)
        if len(self._model.requests) > 1:
            return response
        body = await response.aread()
        return httpx.Response(
            200, headers={"content-type": "text/event-stream"}, content=body[: -len(body) // 3]
        )


@on_every_wire
async def test_an_interrupted_stream_runs_nothing_and_leaves_a_valid_history(
    new_conversation, wire
):
    recorder = Recorder()
    replies = [asks(a_call(arguments=f'{{"city": "{"x" * 50}"}}'), text="I look."), "done"]
    conversation = new_conversation(wire, replies, recorder.tool, streamed=True)
    gateway = Gateway(f"{wire}:m", transport=Breaking(conversation.model), max_retries=0)
    conversation.deps = replace(conversation.deps, stream=gateway.stream, gateway=gateway)
    with pytest.raises(StreamInterrupted):
        await conversation.ask("one")
    assert (recorder.seen, await conversation.history()) == ([], [Message.user("one")])
    assert (await conversation.ask("two")).reply == "done"
