"""Prompt caching: marks for Anthropic's server, and a key for OpenAI's."""

import pytest

from stage0_gateway import (
    ChatRequest,
    Gateway,
    Message,
    Price,
    PriceTable,
    ScriptedModel,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolSpec,
    Usage,
)
from stage0_gateway.response import ChatResponse
from stage0_gateway.wire import anthropic
from tests.stage0_gateway.requests import QUESTION, ask, each_method
from tests.tables import for_each

MARK = {"cache_control": {"type": "ephemeral"}}
OWN = {"anthropic": MARK}
TOOLS = (ToolSpec("f", "does it"), ToolSpec("g", "does more"))
SIGNED = {"anthropic": {"signature": "s"}}
CONVERSATION = (
    Message.system("be brief"),
    Message.user("go"),
    Message.assistant((ThinkingPart("hm", SIGNED),), [ToolCall("1", "f"), ToolCall("2", "f")]),
    Message.tool("one", "1"),
    Message.tool("two", "2"),
)


def marked(body):
    """Return the texts, names and ids of the marked blocks, from the start of the prompt on."""
    blocks = [*body.get("tools", ()), *body.get("system", ())]
    for message in body["messages"]:
        blocks += message["content"]
    for block in list(blocks):
        blocks += block["content"] if isinstance(block.get("content"), list) else ()
    return [
        block.get("text") or block.get("name") or block.get("tool_use_id")
        for block in blocks
        if block.get("cache_control") == {"type": "ephemeral"}
    ]


def marks_of(*messages, tools=TOOLS):
    return marked(anthropic.encode(ChatRequest("m", messages, tools=tools, cache_prompt=True)))


def test_the_ends_of_tools_system_prompt_and_conversation_are_marked():
    assert marks_of(*CONVERSATION) == ["g", "be brief", "2"]
    assert marks_of(*CONVERSATION, Message.assistant("done"), Message.user("more")) == [
        "g",
        "be brief",
        "more",
    ]
    assert marks_of(Message.user("go"), tools=()) == ["go"]


def test_only_the_question_is_marked_if_the_model_continues_its_own_reply():
    paused = Message.assistant((ThinkingPart("hm", SIGNED),))
    assert marks_of(Message.user("go"), paused, tools=()) == ["go"]
    assert marks_of(Message.system("be brief"), tools=()) == ["be brief"]


def test_marks_of_the_caller_count_toward_the_four_of_the_server():
    own = [Message.user((TextPart(f"own {number}", provider_data=OWN),)) for number in range(4)]
    result = Message.tool((TextPart("own result", provider_data=OWN),), "1")
    call = Message.assistant("", [ToolCall("1", "f")])
    user = Message.user("go")
    assert marks_of(*own, user) == [f"own {number}" for number in range(4)]
    assert marks_of(*own[:3], user) == ["own 0", "own 1", "own 2", "go"]
    assert marks_of(*own[:2], user) == ["g", "own 0", "own 1", "go"]
    assert marks_of(*own[:3], call, result, user) == ["own 0", "own 1", "own 2", "own result"]
    assert marks_of(own[0]) == ["g", "own 0"]


async def test_the_gateway_marks_prompts_on_demand():
    model = ScriptedModel(["a"] * 3)
    async with Gateway("anthropic:m", transport=model) as gateway:
        await gateway.chat(CONVERSATION, tools=TOOLS)
        await gateway.chat(CONVERSATION, tools=TOOLS, cache_prompt=True)
        await gateway.chat(CONVERSATION, tools=TOOLS)
    bodies = model.bodies
    model = ScriptedModel(["a"] * 2)
    async with Gateway("anthropic:m", transport=model, cache_prompt=True) as gateway:
        await gateway.stream(CONVERSATION, tools=TOOLS).final_message()
        await gateway.chat(CONVERSATION, tools=TOOLS, cache_prompt=False)
    bodies += model.bodies
    with_marks = ["g", "be brief", "2"]
    assert [marked(body) if "cache_control" in str(body) else [] for body in bodies] == [
        [],
        with_marks,
        [],
        with_marks,
        [],
    ]


@for_each("model", ["openai:m", "mistral:m", "gemini:m"])
async def test_other_servers_get_no_marks(model):
    script = ScriptedModel(["a", "b"])
    async with Gateway(model, transport=script, cache_prompt=True) as gateway:
        await gateway.chat(CONVERSATION, tools=TOOLS)
        await gateway.chat(CONVERSATION, tools=TOOLS, cache_prompt=False)
    assert script.bodies[0] == script.bodies[1]


async def keys_sent(model, *keys, **options):
    script = ScriptedModel(["a"] * len(keys))
    async with Gateway(model, transport=script, **options) as gateway:
        for key in keys:
            await gateway.chat(QUESTION, cache_key=key)
    return [body.get("prompt_cache_key") for body in script.bodies]


async def test_the_cache_key_is_sent_to_openais_own_server_only():
    for model in ("openai:m", "openai-responses:m"):
        assert await keys_sent(model, "s", None, "") == ["s", None, None], model
    for model in ("openrouter:m", "mistral:m", "anthropic:m", "gemini:m", "ollama:m"):
        assert await keys_sent(model, "s") == [None], model
    assert await keys_sent("openai:m", "s", base_url="http://gpu.test/v1") == [None]


async def test_a_long_cache_key_is_shortened_and_stays_distinct():
    sent = await keys_sent("openai:m", "a" * 64, "a" * 65, "a" * 66, "a" * 65)
    assert [len(each) for each in sent] == [64] * 4
    assert sent[1] == sent[3]
    assert len({*sent}) == 3


async def test_the_provider_options_of_a_request_override_its_cache_key():
    script, options = ScriptedModel(["a"]), {"prompt_cache_key": "own"}
    async with Gateway("openai:m", transport=script) as gateway:
        await gateway.chat(QUESTION, cache_key="s", provider_options=options)
    assert script.bodies[0]["prompt_cache_key"] == "own"


PRICE = Price(1.0, 5.0, cached_input=0.1, cache_write=1.25)


@for_each(
    "model, usage, tokens",
    [
        ("openai:m", Usage(1000, 100, 700, None, 200), 100 * 1 + 700 * 0.1 + 200 * 1.25 + 500),
        ("mistral:m", Usage(1000, 100, 700), 300 * 1 + 700 * 0.1 + 500),
        ("anthropic:m", Usage(100, 100, 700, None, 200), 100 + 700 * 0.1 + 200 * 1.25 + 500),
    ],
)
@each_method
async def test_cached_tokens_appear_in_usage_and_cost(model, usage, tokens, method):
    script = ScriptedModel([ChatResponse(Message.assistant("a"), "stop", usage=usage)])
    async with Gateway(model, transport=script, prices=PriceTable({"m": PRICE})) as gateway:
        reply = await ask(gateway, method)
    assert reply.usage == usage
    assert reply.cost == pytest.approx(tokens / 1_000_000)
