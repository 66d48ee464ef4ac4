"""What the later stages know about a model, and which values they accept as one."""

from functools import partial

import pytest

from stage0_gateway import ChatModel, Gateway, ScriptedModel, chat_of
from tests.stage0_gateway.requests import QUESTION
from tests.tables import for_each

FACTS = (
    "model",
    "supports_schema",
    "supports_schema_with_tools",
    "accepts_cache_key",
    "has_prices",
    "secrets",
)


def test_a_gateway_is_a_chat_model():
    assert isinstance(Gateway("openai:m", api_key="k"), ChatModel)


@for_each(
    "name, facts",
    [
        ("openai:m", ("openai:m", True, True, True, False, ("sk-secret",))),
        ("gemini:m", ("gemini:m", True, False, True, False, ("sk-secret",))),
        ("deepseek:m", ("deepseek:m", False, False, True, False, ("sk-secret",))),
    ],
)
def test_a_gateway_states_the_facts_about_its_model(name, facts):
    gateway = Gateway(name, api_key="sk-secret")
    assert tuple(getattr(gateway, each) for each in FACTS) == facts


@for_each("missing", [None, *FACTS, "chat", "stream"])
def test_an_object_of_another_class_is_a_chat_model_if_it_has_all_facts_and_functions(missing):
    class Model:
        """A model of a program."""

    made = Model()
    for name in {*FACTS, "chat", "stream"} - {missing}:
        setattr(made, name, name)
    assert isinstance(made, ChatModel) == (missing is None)


async def test_the_chat_function_of_a_gateway_is_its_own():
    async with Gateway("openai:m", transport=ScriptedModel(["yes"])) as gateway:
        chat = chat_of(gateway)
        assert chat == gateway.chat
        assert (await chat(QUESTION)).content == "yes"


def test_a_function_is_its_own_chat_function():
    async def chat(messages, **options):
        return "yes"

    class Logged:
        __call__ = chat

    for each in (chat, partial(chat, temperature=0), Logged(), Gateway("offline:teacher").chat):
        assert chat_of(each) is each


@for_each("value", ["openai:m", None, 7, [Gateway]])
def test_any_other_value_raises_an_error_that_states_what_to_pass(value):
    with pytest.raises(TypeError) as caught:
        chat_of(value)
    assert str(caught.value) == (
        "chat must be a Gateway, or an async function that returns a ChatResponse or a text, not "
        f"{value!r}."
    )
