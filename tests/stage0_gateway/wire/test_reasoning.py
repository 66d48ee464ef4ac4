import pytest

from stage0_gateway import (
    ChatRequest,
    ConfigurationError,
    Gateway,
    Message,
    ScriptedModel,
    ToolSpec,
)
from stage0_gateway.wire import anthropic, gemini, openai
from stage0_gateway.wire import openai_responses as responses
from stage0_gateway.wire.reasoning import BUDGETS
from tests.stage0_gateway.server.formats import ANTHROPIC, GEMINI, OPENAI, OPENAI_RESPONSES
from tests.tables import for_each

HI = (Message.user("hi"),)
BUDGET_MODELS = ["claude-3-7-sonnet-20250219", "claude-sonnet-4-20250514", "claude-opus-4-1"]
BUDGET_MODELS += ["claude-haiku-4-5", "claude-opus-4-5-20251101"]
LEVEL_MODELS = ["claude-opus-4-7", "claude-sonnet-5", "claude-haiku-5-5", "claude-opus-10"]


def request(model="m", **options):
    return ChatRequest(model, HI, **options)


def thinking_of(model, **options):
    body = anthropic.encode(request(model, **options))
    return body["thinking"], body.get("output_config"), body["max_tokens"]


@for_each("wire", [openai, anthropic, gemini])
def test_without_the_setting_a_request_has_no_field_for_it(wire):
    text = str(wire.encode(request()))
    assert not any(name in text for name in ("reasoning", "thinking", "effort"))


@for_each("level", ["low", "medium", "high"])
def test_a_level_is_the_effort_in_the_openai_format(level):
    assert openai.encode(request(reasoning=level))["reasoning_effort"] == level


def test_a_level_is_the_effort_in_the_responses_format():
    assert responses.encode(request(reasoning="low"))["reasoning"] == {"effort": "low"}
    with pytest.raises(ConfigurationError, match="m does not accept reasoning=2048"):
        responses.encode(request(reasoning=2048))


def test_the_openai_format_explains_that_it_has_no_token_budgets():
    with pytest.raises(ConfigurationError) as raised:
        openai.encode(request("gpt-5-mini", reasoning=2048))
    assert str(raised.value) == (
        "gpt-5-mini does not accept reasoning=2048, a number of tokens. "
        "Pass 'low', 'medium' or 'high'."
    )


@for_each("model", [*LEVEL_MODELS, "claude-opus-4-6", "glm-5"])
def test_claude_models_since_4_6_get_the_level(model):
    expected = {"type": "adaptive"}, {"effort": "low"}, 4096 + BUDGETS["low"]
    assert thinking_of(model, reasoning="low") == expected


@for_each("model", BUDGET_MODELS)
def test_earlier_claude_models_get_a_budget_for_a_level(model):
    expected = {"type": "enabled", "budget_tokens": BUDGETS["medium"]}
    assert thinking_of(model, reasoning="medium") == (expected, None, 4096 + BUDGETS["medium"])


@for_each("model", [*BUDGET_MODELS, "claude-sonnet-4-6", "glm-5"])
def test_claude_models_up_to_4_6_accept_a_budget(model):
    expected = {"type": "enabled", "budget_tokens": 2000}, None, 2500
    assert thinking_of(model, reasoning=2000, max_tokens=2500) == expected


@for_each("model", LEVEL_MODELS)
def test_later_claude_models_explain_that_they_accept_levels_only(model):
    with pytest.raises(ConfigurationError, match=f"{model} does not accept reasoning=2000"):
        anthropic.encode(request(model, reasoning=2000))


@for_each(
    "options",
    [
        {"reasoning": 1023},
        {"reasoning": 0},
        {"reasoning": 2000, "max_tokens": 2000},
        {"reasoning": "low", "max_tokens": 1000},
    ],
)
def test_a_budget_that_anthropic_rejects_is_explained(options):
    with pytest.raises(ConfigurationError, match=r"at least 1024, and fewer than max_tokens"):
        anthropic.encode(request("claude-haiku-4-5", **options))


@for_each("model", ["claude-haiku-4-5", "claude-opus-5"])
def test_anthropic_models_think_with_temperature_1_only(model):
    assert "thinking" in anthropic.encode(request(model, reasoning="low", temperature=1))
    with pytest.raises(ConfigurationError, match=r"only with temperature 1, not 0\.2\. Omit"):
        anthropic.encode(request(model, reasoning="low", temperature=0.2))


@for_each("choice", ["required", "get_time"])
def test_an_anthropic_model_with_a_budget_cannot_be_forced_to_call_a_tool(choice):
    forced = {"tools": [ToolSpec("get_time", "", {})], "tool_choice": choice}
    with pytest.raises(ConfigurationError, match=f"Omit tool_choice='{choice}' or reasoning"):
        anthropic.encode(request("claude-haiku-4-5", reasoning="low", **forced))
    assert anthropic.encode(request("claude-opus-5", reasoning="low", **forced))["tool_choice"]


def test_a_level_and_a_schema_share_anthropics_output_config():
    body = anthropic.encode(
        request("claude-opus-5", reasoning="high", response_schema={"type": "object"})
    )
    schema = {"type": "json_schema", "schema": {"type": "object"}}
    assert body["output_config"] == {"format": schema, "effort": "high"}


@for_each(
    "model, value, expected",
    [
        ("gemini-3-pro-preview", "high", {"thinkingLevel": "high"}),
        ("gemini-flash-latest", "low", {"thinkingLevel": "low"}),
        ("gemini-3-pro-preview", 2000, {"thinkingBudget": 2000}),
        ("gemini-2.5-flash", "medium", {"thinkingBudget": BUDGETS["medium"]}),
        ("gemini-2.5-flash", 0, {"thinkingBudget": 0}),
    ],
)
def test_gemini_gets_a_level_or_a_budget(model, value, expected):
    body = gemini.encode(request(model, reasoning=value))
    assert body["generationConfig"] == {"thinkingConfig": expected}


def test_the_thinking_of_gemini_is_added_to_the_other_settings():
    body = gemini.encode(request("gemini-3-pro", reasoning="low", temperature=0.2))
    expected = {"temperature": 0.2, "thinkingConfig": {"thinkingLevel": "low"}}
    assert body["generationConfig"] == expected


@for_each("value", ["minimal", "", "LOW", True, -1, 2.5, ["low"]])
@for_each("wire", [openai, anthropic, gemini])
def test_an_unknown_value_raises_with_the_valid_choices(wire, value):
    with pytest.raises(ConfigurationError, match=r"unknown. Pass 'low', 'medium' or 'high', a num"):
        wire.encode(request(reasoning=value))
    with pytest.raises(ConfigurationError, match="is unknown"):
        Gateway("offline:teacher", reasoning=value)


def test_a_gateway_checks_its_setting_for_all_of_its_models():
    with pytest.raises(ConfigurationError, match="gpt-5-mini does not accept reasoning=2048"):
        Gateway("openai:gpt-5-mini", api_key="k", reasoning=2048)
    models = {"model": "gemini:gemini-3-pro", "fallback_models": ["anthropic:claude-opus-5"]}
    with pytest.raises(ConfigurationError, match="claude-opus-5 does not accept reasoning=2048"):
        Gateway(**models, transport=ScriptedModel([]), reasoning=2048)
    Gateway(**models, transport=ScriptedModel([]), reasoning="low")


def test_other_values_of_a_provider_are_passed_as_provider_options():
    options = {"reasoning": "low", "provider_options": {"reasoning_effort": "minimal"}}
    assert openai.encode(request(**options))["reasoning_effort"] == "minimal"


@for_each(
    "form, model, value",
    [
        (OPENAI, "gpt-5-mini", "medium"),
        (OPENAI_RESPONSES, "gpt-5-mini", "medium"),
        (ANTHROPIC, "claude-opus-5", "medium"),
        (ANTHROPIC, "claude-haiku-4-5", 3000),
        (GEMINI, "gemini-3-pro", "medium"),
        (GEMINI, "gemini-2.5-pro", 3000),
    ],
)
def test_the_setting_arrives_at_a_server(form, model, value):
    body = form.wire.encode(request(model, reasoning=value))
    assert form.server.decode_request(body, form.wire.path(model)).reasoning == value


@for_each(
    "body",
    [
        {"thinking": {"type": "disabled"}},
        {"thinking": "on", "output_config": "high"},
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}},
    ],
)
def test_other_settings_of_anthropic_are_not_a_level(body):
    assert ANTHROPIC.server.decode_request({"messages": [], **body}).reasoning is None


async def test_a_request_overrides_the_setting_of_the_gateway():
    model = ScriptedModel(["a", "b", "c"])
    async with Gateway("openai:m", transport=model, reasoning="low") as gateway:
        await gateway.chat(HI)
        await gateway.chat(HI, reasoning="high")
        await gateway.stream(HI, reasoning=None).final_message()
    assert [each.reasoning for each in model.requests] == ["low", "high", None]
