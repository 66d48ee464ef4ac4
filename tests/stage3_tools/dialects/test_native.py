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

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NO_PARAMETERS = {"type": "object", "properties": {}}
IMAGE = ImagePart("aGk=", "image/png")
WIRES = ["openai", "anthropic", "gemini"]
on_every_wire = pytest.mark.parametrize("wire", WIRES)


def tool(name, description="", parameters=None, execute=lambda arguments: "ok"):
    return Tool(name, description, parameters, execute, effect="read")


def asks(*calls, text=""):
    return Message.assistant(text, calls)


def called(id="c1", name="f", arguments="{}", **rest):
    return ToolCall(id, name, arguments, **rest)


class Talk:
    """A session over one wire, in the native dialect unless something else is said."""

    def __init__(self, wire, replies, tools, *, streamed=False, store=None):
        self.model = ScriptedModel(replies)
        self.gateway = Gateway(f"{wire}:m", transport=self.model, max_retries=0)
        self.engine = ContextEngine(store=store)
        self.registry = ToolRegistry(*tools)
        stream = self.gateway.stream if streamed else None
        self.deps = ToolLoopDeps(
            self.gateway.chat, self.engine, OutputController(), self.registry, stream=stream
        )
        self.events = []
        self._started = False

    async def ask(self, question="Go.", **options):
        if not self._started:
            await self.engine.create_session("s")
            self._started = True
        given = {"dialect": NativeDialect(), "on_event": self.events.append, **options}
        return await run_tool_loop(self.deps, "s", question, ToolLoopOptions(**given))

    async def history(self):
        return list(await self.engine.history("s"))

    async def problems(self):
        return (await self.engine.history("s")).check_history()

    @property
    def offered(self):
        """For each request, the names of the tools in it."""
        return [[spec.name for spec in request.tools] for request in self.model.requests]

    def spoken(self, number=-1):
        """The conversation of one request as it was sent, each message with its role."""
        body = self.model.bodies[number]
        return body.get("messages") or body["contents"]


@pytest.fixture
async def talk():
    """Makes sessions; at the end, each script must have been played to its end."""
    made = []

    def make(wire, replies, *tools, **rest):
        made.append(Talk(wire, replies, tools, **rest))
        return made[-1]

    yield make
    for each in made:
        each.model.assert_finished()
        await each.gateway.aclose()


# ---- by itself
# ------------------------------------------------------------------------------------------


def test_the_tools_of_the_registry_become_the_providers():
    registry = ToolRegistry(tool("get_weather", "Tells it.", CITY), tool("天气.now"))
    assert NativeDialect().render([], registry).tools == (
        ToolSpec("get_weather", "Tells it.", CITY),
        ToolSpec("天气.now", "", NO_PARAMETERS),
    )


def test_the_history_is_sent_as_it_is():
    history = [
        Message.system("Be brief."),
        Message.user("[Tool result for f]"),
        Message.assistant("hm", [called()], raw_text='{"tool": "f"}'),
        Message.tool((TextPart("a"), IMAGE), "c1", name="f", is_error=True),
    ]
    assert NativeDialect().render(history, ToolRegistry()).messages == tuple(history)


def test_without_tools_none_are_sent_and_nothing_is_counted():
    dialect = NativeDialect()
    assert (dialect.describe(ToolRegistry()), dialect.render([], ToolRegistry()).tools) == ("", ())


def test_the_description_holds_all_that_is_sent_of_the_tools():
    described = NativeDialect().describe(ToolRegistry(tool("天气", "Tells it.", CITY), tool("f")))
    assert [*map(json.loads, described.splitlines())] == [
        {"name": "天气", "description": "Tells it.", "parameters": CITY},
        {"name": "f", "description": "", "parameters": {}},
    ]
    assert "天气" in described


def test_a_change_of_the_registry_shows_in_the_next_request():
    dialect, registry = NativeDialect(), ToolRegistry(tool("f"))
    registry.register(tool("g"))
    assert [spec.name for spec in dialect.render([], registry).tools] == ["f", "g"]
    registry.unregister("f")
    assert json.loads(dialect.describe(registry))["name"] == "g"


def test_calls_are_read_as_they_came_and_anything_else_is_the_reply():
    message = asks(called("", "nope", "{"), called("", "f"), text="I look.")
    reply = Message.assistant((ThinkingPart("hm"), TextPart("sun")))
    dialect = NativeDialect()
    assert dialect.read(ChatResponse(message, "tool_calls")) == ToolCalls(message)
    assert dialect.read(ChatResponse(reply, "stop")) == FinalReply(reply)


@pytest.mark.parametrize("reason", ["stop", "unknown", "tool_calls", "pause"])
def test_calls_count_whatever_word_a_server_has_for_the_end(reason):
    assert NativeDialect().read(ChatResponse(asks(called()), reason)) == ToolCalls(asks(called()))


def test_text_that_looks_like_a_decision_is_a_reply():
    text = '{"tool": "f", "arguments": {}}'
    assert NativeDialect().read(ChatResponse(Message.assistant(text), "stop")) == FinalReply(
        Message.assistant(text)
    )


@pytest.mark.parametrize("usage", [Usage(output_tokens=64), Usage(), None])
def test_of_a_reply_that_was_cut_nothing_is_used_and_the_words_are_those_of_the_prompt_dialect(
    usage,
):
    cut = ChatResponse(asks(called(), text="I look."), "length", usage=usage)
    reading = NativeDialect().read(cut)
    by_text = PromptDialect().read(replace(cut, message=Message.assistant("I look.")))
    assert reading.message == Message.assistant("I look.")
    assert isinstance(reading, InvalidReply)
    assert reading.feedback == by_text.feedback.replace("one JSON object", "what matters most")
    assert reading.feedback.startswith("Your reply was cut off")
    assert ("after 64 tokens" in reading.feedback) is bool(usage and usage.output_tokens)


# ---- what the provider is sent
# --------------------------------------------------------------------------


@on_every_wire
async def test_tools_are_sent_in_the_providers_own_form(talk, wire):
    talk = talk(wire, ["sun"], tool("get_weather", "Tells it.", CITY), tool("f"))
    await talk.ask()
    (body,) = talk.model.bodies
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
        }[wire]
    )


@on_every_wire
async def test_a_name_that_providers_refuse_is_sent_otherwise_and_arrives_as_it_is(
    talk, wire, recorder
):
    noted = recorder("math.add")
    sent = "math_add_ecef409b"
    talk = talk(wire, [asks(called(name=sent, arguments='{"a": 1}')), "done"], noted.tool)
    result = await talk.ask()
    assert (talk.offered, noted.seen) == ([[sent]] * 2, [{"a": 1}])
    assert [record.name for record in result.history] == ["math.add"]
    assert (await talk.history())[1].tool_calls[0].name == "math.add"
    assert [
        call.name for message in talk.model.requests[1].messages for call in message.tool_calls
    ] == [sent]


@on_every_wire
async def test_tools_may_come_and_go_between_two_turns(talk, wire):
    def change(arguments):
        talk.registry.register(tool("new"))
        talk.registry.unregister("old")
        return "changed"

    replies = [
        asks(called(name="change")),
        asks(called("c2", "new")),
        asks(called("c3", "old")),
        "done",
    ]
    talk = talk(wire, replies, tool("change", execute=change), tool("old"))
    result = await talk.ask()
    assert talk.offered == [["change", "old"], *[["change", "new"]] * 3]
    assert [record.result.status for record in result.history] == [
        "completed",
        "completed",
        "error",
    ]
    assert (result.status, await talk.problems()) == ("completed", [])


@on_every_wire
async def test_what_is_sent_may_be_changed_for_one_request(talk, wire, recorder):
    def shorter(messages):
        return [message for message in messages if message.text != "secret"]

    talk = talk(wire, [asks(called()), "done"], recorder(returns="secret").tool)
    await talk.ask(before_send=lambda messages, info: [Message.system("Be brief."), *messages])
    assert [request.messages[0].text for request in talk.model.requests] == ["Be brief."] * 2
    assert talk.offered == [["f"]] * 2
    assert [message.role for message in await talk.history()] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


@pytest.mark.parametrize("dialect", [NativeDialect(), PromptDialect()], ids=["native", "prompt"])
async def test_before_send_learns_the_turn_the_tools_and_whether_the_request_is_the_last(
    talk, dialect, recorder
):
    infos, call = [], '{"tool": "f"}' if isinstance(dialect, PromptDialect) else asks(called())
    answer = '{"tool": null, "reply": "done"}' if isinstance(dialect, PromptDialect) else "done"
    talk = talk("openai", [call, answer], recorder().tool)

    def before_send(messages, info):
        infos.append((info.turn, info.tools[0].name, info.last))

    result = await talk.ask(before_send=before_send, dialect=dialect, max_tool_rounds=1)
    assert infos == [(1, "f", False), (2, "f", True)]
    assert (result.status, result.reply) == ("max_rounds", "done")
    assert LAST_REQUEST in talk.model.requests[-1].messages[0].text


@on_every_wire
async def test_a_server_that_rejects_calls_without_tools_answers_the_last_request(wire, recorder):
    rejected = []

    def strict(request):
        body = json.loads(request.content)
        if "f" in request.content.decode() and "tools" not in body:
            rejected.append(body)
        return model.handle_async_request(request)

    class Strict(httpx.AsyncBaseTransport):
        handle_async_request = staticmethod(strict)

    model = ScriptedModel([asks(called()), "so far"])
    async with Gateway(f"{wire}:m", api_key="k", transport=Strict()) as gateway:
        engine = ContextEngine()
        deps = ToolLoopDeps(gateway.chat, engine, OutputController(), ToolRegistry(recorder().tool))
        options = ToolLoopOptions(dialect=NativeDialect(), max_tool_rounds=1)
        result = await run_tool_loop(deps, await engine.create_session(), "Go.", options)
    assert (result.reply, rejected) == ("so far", [])


# ---- calls and results
# ----------------------------------------------------------------------------------

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
}


@on_every_wire
async def test_results_go_back_in_call_order_each_under_its_own_id_and_errors_as_errors(talk, wire):
    def fail(arguments):
        raise ValueError("no")

    answers = {1: "one", 3: {"celsius": 22}}
    tools = [tool("a", execute=lambda arguments: answers[arguments["n"]]), tool("b", execute=fail)]
    calls = [called("c1", "a", '{"n": 1}'), called("c2", "b"), called("c3", "a", '{"n": 3}')]
    talk = talk(wire, [asks(*calls, text="I look."), "done"], *tools)
    result = await talk.ask()
    assert talk.spoken()[2:] == RESULTS[wire]
    assert (result.status, result.tool_rounds, await talk.problems()) == ("completed", 1, [])
    decision = next(event for event in talk.events if event.name == "decision")
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
}


@on_every_wire
async def test_a_picture_in_a_result_reaches_the_model(talk, wire):
    draw = tool("draw", execute=lambda arguments: ["the map", IMAGE])
    talk = talk(wire, [asks(called("c1", "draw"), called("c2")), "done"], draw, tool("f"))
    await talk.ask()
    assert talk.spoken()[2:] == PICTURES[wire]
    assert (await talk.history())[2] == Message.tool(
        (TextPart("the map"), IMAGE), "c1", name="draw"
    )


@on_every_wire
@pytest.mark.parametrize(
    "ids", [("", ""), ("x", "x"), ("x", "")], ids=["missing", "repeated", "mixed"]
)
async def test_ids_that_a_server_repeats_or_leaves_out_are_made_unique(talk, wire, ids, recorder):
    noted = recorder()
    turns = [
        asks(*(called(id, "f", f'{{"n": {turn}{at}}}') for at, id in enumerate(ids)))
        for turn in (1, 2)
    ]
    talk = talk(wire, [*turns, "done"], noted.tool)
    result = await talk.ask()
    assert noted.seen == [{"n": n} for n in (10, 11, 20, 21)]
    made = [record.id for record in result.history]
    assert (len({*made, ""}), await talk.problems()) == (5, [])
    assert [
        message.tool_call_id for message in await talk.history() if message.role == "tool"
    ] == made


def written(text, wires=WIRES):
    """These arguments over these wires; only OpenAI's has arguments as text, with all that may be
    wrong in it."""
    return [pytest.param(wire, text, id=f"{wire} {text}") for wire in wires]


@pytest.mark.parametrize(
    ("wire", "arguments"),
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
async def test_arguments_that_are_no_json_object_are_refused_with_an_error_result(
    talk, wire, arguments, recorder
):
    noted = recorder(parameters=CITY)
    bad, good = called(arguments=arguments), called("c2", arguments='{"city": "Oslo"}')
    talk = talk(wire, [asks(bad), asks(good), "done"], noted.tool)
    result = await talk.ask()
    first, second = (record.result for record in result.history)
    assert (first.is_error, first.error.kind, second.output) == (True, "validation", "ok")
    assert first.output.startswith("Error (validation): ")
    assert (noted.seen, result.status, result.tool_rounds) == ([{"city": "Oslo"}], "completed", 1)
    assert await talk.problems() == []


@on_every_wire
async def test_a_tool_that_is_not_there_is_answered_with_those_that_are(talk, wire, recorder):
    noted = recorder("math.add")
    talk = talk(
        wire, [asks(called(name="math.ad")), asks(called("c2", "math.add")), "done"], noted.tool
    )
    result = await talk.ask()
    assert [record.result.output for record in result.history] == [
        "Error (not_found): There is no tool named 'math.ad'. Available tools: math.add.\n"
        "Did you mean math.add?",
        "ok",
    ]
    assert noted.seen == [{}]


@on_every_wire
async def test_a_long_result_is_kept_as_a_variable_and_a_tool_to_read_it_comes_with_it(
    talk, wire, recorder
):
    talk = talk(
        wire, [asks(called()), asks(called("c2")), "done"], recorder(returns="x" * 5_000).tool
    )
    await talk.ask()
    assert talk.offered == [["f"], *[["f", "read_variable"]] * 2]
    for message in talk.model.requests[2].messages:
        if message.role == "tool":
            assert message.text.startswith("x" * 200 + "…\n[5000 characters in $VAR_REF{{")
    assert await talk.problems() == []


# ---- what only the provider understands
# -----------------------------------------------------------------

SIGNED = {"anthropic": {"signature": "Er0C+/==\n晴"}}


async def test_signed_thinking_of_anthropic_goes_back_word_for_word(talk, recorder):
    thought = ThinkingPart("Let me\n look …", SIGNED)
    hidden = ProviderPart("anthropic", {"type": "redacted_thinking", "data": "EmwK"})
    said = Message.assistant(
        (thought, hidden, TextPart("I look.")), [called("toolu_1"), called("toolu_2")]
    )
    talk = talk("anthropic", [said, "done", "bye"], recorder().tool)
    await talk.ask()
    await talk.ask("And now?")
    blocks = [
        {"type": "thinking", "thinking": "Let me\n look …", "signature": "Er0C+/==\n晴"},
        {"type": "redacted_thinking", "data": "EmwK"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
        {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {}},
    ]
    assert [body["messages"][1]["content"] for body in talk.model.bodies[1:]] == [blocks, blocks]


async def test_thought_signatures_of_gemini_go_back_on_the_parts_they_came_with(talk, recorder):
    signed = called("call_0", provider_data={"gemini": {"thoughtSignature": "CsY=="}})
    text = TextPart("I look.", provider_data={"gemini": {"thoughtSignature": "AbC="}})
    talk = talk(
        "gemini", [Message.assistant((text,), [signed, called("call_1")]), "done"], recorder().tool
    )
    await talk.ask()
    assert talk.spoken()[1] == {
        "role": "model",
        "parts": [
            {"text": "I look.", "thoughtSignature": "AbC="},
            {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "CsY=="},
            {"functionCall": {"name": "f", "args": {}}},
        ],
    }


async def test_signatures_outlive_the_process_and_questions_in_the_other_dialect(
    talk, recorder, tmp_path
):
    said = Message.assistant((ThinkingPart("hm", SIGNED),), [called("toolu_1")])
    file = SqliteStore(tmp_path / "sessions.db")
    first = talk("anthropic", [said, "done"], recorder().tool, store=file)
    await first.ask()
    await file.aclose()
    file = SqliteStore(tmp_path / "sessions.db")
    second = talk(
        "anthropic", ['{"tool": null, "reply": "by text"}', "bye"], recorder().tool, store=file
    )
    second._started = True
    await second.ask(dialect=PromptDialect())
    await second.ask()
    await file.aclose()
    by_text, native = (body["messages"][1]["content"] for body in second.model.bodies)
    assert by_text == '{"tool": "f", "arguments": {}}'
    assert native == [
        {"type": "thinking", "thinking": "hm", "signature": "Er0C+/==\n晴"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
    ]


# ---- replies that end otherwise
# -------------------------------------------------------------------------


def given_feedback(text):
    return Message("user", f"[Feedback]\n{text}", name="feedback")


@on_every_wire
@pytest.mark.parametrize("text", ["I look.", ""])
async def test_calls_in_a_reply_that_was_cut_are_not_run_and_the_model_is_told(
    talk, wire, text, recorder
):
    noted = recorder()
    cut = ChatResponse(asks(called(arguments='{"n": 1}'), text=text), "length", usage=Usage(3, 64))
    talk = talk(wire, [cut, asks(called(arguments='{"n": 2}')), "done"], noted.tool)
    result = await talk.ask()
    told = (
        "Your reply was cut off after 64 tokens, so nothing in it was used. "
        "Answer again, shorter: what matters most."
    )
    assert (noted.seen, result.status, result.tool_rounds) == ([{"n": 2}], "completed", 1)
    said = [Message.assistant(text)] if text else []
    assert (await talk.history())[1 : 2 + len(said)] == [*said, given_feedback(told)]
    assert [event.feedback for event in talk.events if event.name == "feedback"] == [told]
    assert await talk.problems() == []


@on_every_wire
async def test_replies_that_are_cut_again_and_again_end_the_run(talk, wire, recorder):
    cut = ChatResponse(Message.assistant("It is"), "length")
    talk = talk(wire, [cut] * 3, recorder().tool)
    result = await talk.ask()
    assert (result.status, result.reply, result.last_raw_content) == ("parse_failed", None, "It is")


@on_every_wire
async def test_a_refusal_ends_the_run_and_nothing_in_it_is_run(talk, wire, recorder):
    noted = recorder()
    refused = ChatResponse(asks(called(), text="I will not."), "refusal")
    talk = talk(wire, [refused, "Hello."], noted.tool)
    result = await talk.ask()
    assert (result.status, result.reply, result.status_reason) == ("refused", None, "I will not.")
    assert (noted.seen, await talk.problems()) == ([], [])
    assert (await talk.ask("Hello?")).reply == "Hello."


SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "sun"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srv_1",
    "content": [{"type": "x", "y": "晴"}],
}


@pytest.mark.parametrize(
    ("parts", "blocks"),
    [
        ((TextPart("I search."), ProviderPart("anthropic", SEARCH)), [{"type": "text", "text": "I search."}]),
        ((ProviderPart("anthropic", SEARCH),), []),
        ((ThinkingPart("hm", SIGNED), ProviderPart("anthropic", SEARCH)), [
            {"type": "thinking", "thinking": "hm", "signature": "Er0C+/==\n晴"}
        ]),
    ],
    ids=["with text", "without text", "with thoughts"],
)  # fmt: skip
async def test_a_pause_is_sent_on_unchanged(talk, recorder, parts, blocks):
    paused = ChatResponse(Message.assistant((*parts, ProviderPart("anthropic", FOUND))), "pause")
    talk = talk("anthropic", [paused, "done"], recorder().tool)
    result = await talk.ask()
    assert (result.status, result.reply) == ("completed", "done")
    assert talk.spoken()[1:] == [{"role": "assistant", "content": [*blocks, SEARCH, FOUND]}]


@pytest.mark.parametrize(
    ("pauses", "status", "reply"), [(5, "completed", "done"), (6, "limit", None)]
)
async def test_a_pause_is_sent_on_at_most_five_times(talk, recorder, pauses, status, reply):
    paused = ChatResponse(Message.assistant((ProviderPart("anthropic", SEARCH),)), "pause")
    talk = talk("anthropic", [*[paused] * pauses, *(["done"] if reply else [])], recorder().tool)
    result = await talk.ask()
    assert (result.status, result.reply, len(talk.model.requests)) == (status, reply, 6)


async def test_calls_in_a_reply_that_pauses_are_run(talk, recorder):
    noted = recorder()
    paused = ChatResponse(
        Message.assistant((ProviderPart("anthropic", SEARCH),), [called("toolu_1")]), "pause"
    )
    talk = talk("anthropic", [paused, "done"], noted.tool)
    assert (await talk.ask()).tool_rounds == 1
    assert (noted.seen, await talk.problems()) == ([{}], [])


@on_every_wire
@pytest.mark.parametrize("rounds", [0, 1])
async def test_an_empty_reply_is_requested_once_more_and_after_results_without_calls(
    talk, wire, rounds, recorder
):
    talk = talk(wire, [*[asks(called())] * rounds, "", "done"], recorder().tool)
    result = await talk.ask()
    assert (result.status, result.reply, result.tool_rounds) == ("completed", "done", rounds)
    assert talk.offered == [["f"]] * (rounds + 2)
    assert talk.model.requests[-1].tool_choice == ("none" if rounds else None)
    assert talk.model.requests[-1].messages[-1] == Message.user(
        "[Feedback]\nYour reply was empty. Answer the user."
    )
    assert all(message.content or message.tool_calls for message in await talk.history())


@on_every_wire
async def test_a_reply_that_is_empty_twice_is_the_empty_reply(talk, wire, recorder):
    talk = talk(wire, ["", " \n"], recorder().tool)
    result = await talk.ask()
    assert (result.status, result.reply, result.status_reason) == (
        "completed",
        "",
        "The model's reply was empty, twice.",
    )


async def test_thoughts_alone_are_no_reply(talk, recorder):
    talk = talk(
        "anthropic", [Message.assistant((ThinkingPart("hm", SIGNED),)), "done"], recorder().tool
    )
    assert (await talk.ask()).reply == "done"
    assert [message.text for message in await talk.history()][-1] == "done"


# ---- the limit
# ------------------------------------------------------------------------------------------


@on_every_wire
@pytest.mark.parametrize("rounds", [0, 1, 3])
async def test_at_the_limit_one_last_request_lists_the_tools_and_forbids_calls(
    talk, wire, rounds, recorder
):
    noted = recorder()
    calls = [asks(called(f"c{n}", "f", f'{{"n": {n}}}')) for n in range(rounds)]
    talk = talk(wire, [*calls, "so far"], noted.tool)
    result = await talk.ask(max_tool_rounds=rounds)
    assert (result.status, result.reply, result.tool_rounds) == ("max_rounds", "so far", rounds)
    assert noted.seen == [{"n": n} for n in range(rounds)]
    assert talk.offered == [["f"]] * (rounds + 1)
    assert ["tools" in body for body in talk.model.bodies] == [True] * (rounds + 1)
    choices = [request.tool_choice for request in talk.model.requests]
    assert choices == [*[None] * rounds, "none"]
    asked_to_answer = [LAST_REQUEST in request.messages[0].text for request in talk.model.requests]
    assert asked_to_answer == [*[False] * rounds, True]
    assert await talk.problems() == []


@on_every_wire
@pytest.mark.parametrize("text", ["It is sunny.", ""])
async def test_a_stray_call_in_the_last_reply_is_dropped(talk, wire, text, recorder):
    noted = recorder()
    stray = asks(called("c2", "f", '{"n": 2}'), text=text)
    talk = talk(wire, [asks(called()), stray, *([] if text else ["well"])], noted.tool)
    result = await talk.ask(max_tool_rounds=1)
    assert (result.status, result.reply, noted.seen) == ("max_rounds", text or "well", [{}])
    assert (len(result.history), await talk.problems()) == (1, [])
    assert sum(len(message.tool_calls) for message in await talk.history()) == 1


# ---- a session that changes its dialect
# -----------------------------------------------------------------


@on_every_wire
async def test_a_session_changes_from_text_to_calls_and_back(talk, wire, recorder):
    noted = recorder("math.add", returns="[Tool result for f]")
    sent = "math_add_ecef409b"
    by_text, call = (
        '{"tool": "math.add", "arguments": {"n": 1}}',
        asks(called("c9", sent, '{"n": 2}')),
    )
    again = '{"tool": "math.add", "arguments": {"n": 3}}'
    one, three = '{"tool": null, "reply": "one"}', '{"tool": null, "reply": "three"}'
    talk = talk(wire, [by_text, one, call, "two", again, three], noted.tool)
    replies = [
        (await talk.ask("1", dialect=PromptDialect())).reply,
        (await talk.ask("2")).reply,
        (await talk.ask("3", dialect=PromptDialect())).reply,
    ]
    assert (replies, noted.seen) == (["one", "two", "three"], [{"n": 1}, {"n": 2}, {"n": 3}])
    assert talk.offered == [[], [], [sent], [sent], [], []]
    native = [
        (m.role, m.text, [c.name for c in m.tool_calls]) for m in talk.model.requests[3].messages
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
    assert [(m.role, m.text) for m in talk.model.requests[5].messages[1:]] == [
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
    assert await talk.problems() == []


# ---- replies that arrive piece by piece
# -----------------------------------------------------------------


def without_streams(events):
    """The events that there are also without a stream, without their times."""
    return [
        replace(event, result=replace(event.result, duration=0.0))
        if event.name == "tool_result"
        else event
        for event in events
        if event.name != "reply_stream"
    ]


def without_times(result):
    records = tuple(
        replace(record, started=0, ended=0, result=replace(record.result, duration=0.0))
        for record in result.history
    )
    return replace(result, history=records, stats=replace(result.stats, duration=0.0))


@on_every_wire
async def test_a_streamed_run_is_heard_piece_by_piece_and_comes_to_the_same(talk, wire, recorder):
    heard = []

    def listen(event):
        if event.name == "reply_stream":
            heard.append([])
            event.stream.on("text", lambda piece, pieces=heard[-1]: pieces.append(piece.delta))

    signed = {wire: {"signature": "s1"}} if wire == "anthropic" else None
    thought = (ThinkingPart("Let me look.", signed),) if signed else ()
    calls = [called("call_0", "f", '{"city": "上海"}'), called("call_1", "f", '{"city": "Oslo"}')]
    replies = [
        Message.assistant((*thought, TextPart("I am looking.")), calls),
        "It is sunny in 上海.",
    ]
    whole = talk(wire, replies, recorder(parameters=CITY).tool)
    streamed = talk(wire, replies, recorder(parameters=CITY).tool, streamed=True)
    expected = await whole.ask()

    def both(event):
        streamed.events.append(event)
        listen(event)

    result = await streamed.ask(on_event=both)
    assert without_times(result) == without_times(expected)
    assert without_streams(streamed.events) == without_streams(whole.events)
    assert await streamed.history() == await whole.history()
    assert [event.name for event in streamed.events].count("reply_stream") == 2
    assert ["".join(pieces) for pieces in heard] == ["I am looking.", "It is sunny in 上海."]
    assert min(map(len, heard)) > 1


class Breaking(httpx.AsyncBaseTransport):
    """Cuts the first answer in the middle."""

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
async def test_a_stream_that_breaks_off_runs_nothing_and_leaves_the_history_sound(
    talk, wire, recorder
):
    noted = recorder()
    replies = [asks(called(arguments=f'{{"city": "{"x" * 50}"}}'), text="I look."), "done"]
    talk = talk(wire, replies, noted.tool, streamed=True)
    gateway = Gateway(f"{wire}:m", transport=Breaking(talk.model), max_retries=0)
    talk.deps = replace(talk.deps, stream=gateway.stream)
    with pytest.raises(StreamInterrupted):
        await talk.ask("one")
    assert (noted.seen, await talk.history()) == ([], [Message.user("one")])
    assert (await talk.ask("two")).reply == "done"
