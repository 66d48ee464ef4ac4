"""A conversation with the call ids of one provider continues at any other one."""

import re

from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import ChatRequest, Gateway, ImagePart, Message, ScriptedModel, ToolCall
from stage0_gateway.http.endpoint import PROVIDERS
from stage0_gateway.wire import mistral, openai
from tests.tables import for_each

ACCEPTED = {
    "openai": re.compile(r".{1,40}", re.DOTALL),
    "openai-responses": re.compile(r".{1,64}", re.DOTALL),
    "mistral": re.compile(r"[a-zA-Z0-9]{9}"),
    "anthropic": re.compile(r"[a-zA-Z0-9_-]{1,64}"),
}
IDS = [
    "call_abc",
    "toolu_01A09q90qw90lq917835lq9",
    "a1B2c3D4e",
    "functions.get_weather:0",
    "fc_" + "a" * 60 + "1",
    "fc_" + "a" * 60 + "2",
    "call|" + "x" * 450,
]


def conversation(ids):
    calls = [ToolCall(each, "f") for each in ids]
    results = [Message.tool(f"result {each}", each) for each in ids]
    return (Message.user("Go."), Message.assistant("", calls), *results)


@for_each("provider", ACCEPTED)
async def test_a_call_and_its_result_are_sent_with_the_same_accepted_id(provider):
    model, messages = ScriptedModel(["a", "b"]), conversation(IDS)
    async with Gateway(f"{provider}:m", transport=model) as gateway:
        await gateway.chat(messages)
        await gateway.chat([*messages, Message.user("Again.")])
    for request in model.requests:
        calls = [call.id for each in request.messages for call in each.tool_calls]
        results = [each.tool_call_id for each in request.messages if each.role == "tool"]
        assert calls == results
        assert all(ACCEPTED[provider].fullmatch(each) for each in calls)
        assert len({*calls}) == len(IDS)
    first, second = ([each.tool_call_id for each in one.messages] for one in model.requests)
    assert second[: len(first)] == first
    assert messages == conversation(IDS)  # the own ids are kept


@for_each("provider, accepted", ACCEPTED.items())
def test_an_accepted_id_is_sent_unchanged(provider, accepted):
    wire = PROVIDERS[provider].wire
    own = [each for each in IDS if accepted.fullmatch(each)]
    assert own
    text = str(wire.encode_messages(conversation(own)))
    assert all(text.count(repr(each)) == 2 for each in own)


@given(st.lists(st.text(max_size=50), unique=True, max_size=30))
def test_ids_for_mistral_are_accepted_and_distinct(ids):
    messages = (Message.assistant("", [ToolCall(each, "f") for each in ids]),)
    (encoded,) = mistral.encode_messages(messages)
    sent = [call["id"] for call in encoded.get("tool_calls", ())]
    assert all(ACCEPTED["mistral"].fullmatch(each) for each in sent)
    assert len({*sent}) == len(ids)


def test_mistral_gets_the_same_request_as_openai_apart_from_the_ids():
    messages = (*conversation(["a1B2c3D4e"]), Message.user((ImagePart("AAAA"),)))
    request = ChatRequest("m", messages, temperature=0.5, max_tokens=9, reasoning="high")
    assert mistral.encode(request, stream=True) == openai.encode(request, stream=True)
