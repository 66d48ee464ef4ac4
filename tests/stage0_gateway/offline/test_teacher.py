import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.messages import Message, ToolCall
from stage0_gateway.offline.chatting import IDENTITY
from stage0_gateway.offline.teacher import MOST_CALLS, answer
from stage0_gateway.request import ChatRequest, ToolSpec


def form(*required: str, **optional: Any) -> dict[str, Any]:
    properties = {name: {"type": "string"} for name in required}
    return {"type": "object", "properties": {**properties, **optional}, "required": list(required)}


WEATHER = ToolSpec("get_weather", "Get the current weather of a city.", form("city"))
TIME = ToolSpec("get_time", "Tell the current time.", form(timezone={"type": "string", "default": "UTC"}))
TOOLS = (WEATHER, TIME)
PROMPT = "\n".join(
    [
        "You may use these tools:",
        *(
            json.dumps({"name": t.name, "description": t.description, "parameters": t.parameters})
            for t in TOOLS
        ),
        'Answer with {"tool": name, "arguments": {...}} or {"tool": null, "reply": "..."}.',
    ]
)


def native(question: str, results: dict[str, str], tools: tuple[ToolSpec, ...] = TOOLS) -> list[str]:
    """Play a question through with native tool calls; returns the calls and, last, the reply."""
    messages = [Message.user(question)]
    seen: list[str] = []
    while True:
        reply = answer(ChatRequest("teacher", tuple(messages), tools))
        messages.append(reply)
        if not reply.tool_calls:
            return [*seen, reply.text]
        (call,) = reply.tool_calls
        seen.append(f"{call.id} {call.name} {call.arguments}")
        messages.append(Message.tool(results.get(call.arguments, results.get(call.name, "ok")), call.id))


def prompted(question: str, result: str) -> list[Any]:
    """The same in the prompt dialect; returns the decisions."""
    messages = [Message.system(PROMPT), Message.user(question)]
    seen: list[Any] = []
    while True:
        reply = answer(ChatRequest("teacher", tuple(messages)))
        seen.append(json.loads(reply.text))
        if seen[-1]["tool"] is None:
            return seen
        messages += [reply, Message.user(f"[Tool result for {seen[-1]['tool']}]\n{result}")]


def say(*texts: str, system: str | None = None) -> str:
    """The reply to a plain conversation in which user and assistant take turns."""
    roles = (Message.user, Message.assistant)
    messages = [Message.system(system)] if system else []
    messages += [roles[index % 2](text) for index, text in enumerate(texts)]
    return answer(ChatRequest("teacher", tuple(messages))).text


def test_a_question_with_a_native_tool_is_one_call_and_a_sentence() -> None:
    assert native("What is the weather in Shanghai?", {"get_weather": '{"temp": 22, "unit": "celsius"}'}) == [
        'call_1 get_weather {"city": "Shanghai"}',
        "get_weather says for Shanghai: temp 22, unit celsius.",
    ]


def test_the_prompt_dialect_gets_the_same_call_and_the_same_sentence() -> None:
    assert prompted("What is the weather in Shanghai?", '{"temp": 22, "unit": "celsius"}') == [
        {"tool": "get_weather", "arguments": {"city": "Shanghai"}},
        {"tool": None, "reply": "get_weather says for Shanghai: temp 22, unit celsius."},
    ]


def test_two_cities_are_two_rounds_and_one_reply() -> None:
    results = {'{"city": "Beijing"}': "sunny", '{"city": "Shanghai"}': "Error: no such city"}
    assert native("What is the weather in Beijing and Shanghai?", results) == [
        'call_1 get_weather {"city": "Beijing"}',
        'call_2 get_weather {"city": "Shanghai"}',
        "get_weather says for Beijing: sunny. get_weather failed for Shanghai: no such city.",
    ]


def test_two_needs_are_two_tools() -> None:
    assert native("What time is it and what is the weather in Paris?", {"get_time": "9:00"}) == [
        "call_1 get_time {}",
        'call_2 get_weather {"city": "Paris"}',
        "get_time says: 9:00. get_weather says for Paris: ok.",
    ]


def test_a_chinese_question_finds_tool_and_city() -> None:
    assert native("上海的天气怎么样？", {})[0] == 'call_1 get_weather {"city": "上海"}'


@pytest.mark.parametrize("question", ["Tell me a joke", "What is your favourite colour?"])
def test_where_no_tool_fits_it_says_so(question: str) -> None:
    text = "I am a set of rules, not a language model, and none of my tools (get_weather, get_time) fits this question."
    assert native(question, {}) == [text]
    assert prompted(question, "") == [{"tool": None, "reply": text}]


def test_what_a_tool_needs_and_the_question_does_not_say_is_asked_for() -> None:
    assert native("How is the weather?", {}) == ["Which city do you mean? I need it to call get_weather."]


def test_a_follow_up_uses_the_last_tool_again_and_a_new_id() -> None:
    messages = (
        Message.user("Weather in Oslo?"),
        Message.assistant("", [ToolCall("call_1", "get_weather", '{"city": "Oslo"}')]),
        Message.tool("sunny", "call_1"),
        Message.assistant("Sunny."),
        Message.user("And in Rome?"),
    )
    reply = answer(ChatRequest("teacher", messages, TOOLS))
    assert reply == Message.assistant("", [ToolCall("call_2", "get_weather", '{"city": "Rome"}')])


def test_after_feedback_it_gives_up_on_the_call_and_says_why() -> None:
    messages = (
        Message.system(PROMPT),
        Message.user("Weather in Oslo?"),
        Message.assistant('{"tool": "get_weather", "arguments": {"city": "Oslo"}}'),
        Message.user("[Feedback] 'city' is not allowed."),
    )
    assert json.loads(answer(ChatRequest("teacher", messages)).text) == {
        "tool": None,
        "reply": "I gave up on get_weather for Oslo: 'city' is not allowed.",
    }


def test_it_ends_after_eight_calls() -> None:
    towns = "Oslo, Rome, Bern, Bonn, Kyiv, Lima, Cali, Baku, Bari and Pisa"
    assert len(native(f"What is the weather in {towns}?", {})) == MOST_CALLS + 1


def test_the_decision_format_without_tools_gets_a_decision_without_a_tool() -> None:
    system = 'Answer with {"tool": null, "reply": "..."}.'
    messages = (Message.system(system), Message.user("Are you a language model?"))
    assert json.loads(answer(ChatRequest("teacher", messages)).text) == {"tool": None, "reply": IDENTITY}


def test_tool_choice_none_calls_nothing_and_a_named_tool_is_called() -> None:
    asked = (Message.user("Weather in Oslo?"),)
    assert answer(ChatRequest("teacher", asked, TOOLS, tool_choice="none")).tool_calls == ()
    named = answer(ChatRequest("teacher", asked, TOOLS, tool_choice="get_time"))
    assert [call.name for call in named.tool_calls] == ["get_time"]


def test_results_are_told_when_the_tools_are_taken_away() -> None:
    messages = (
        Message.user("Weather in Oslo?"),
        Message.assistant("", [ToolCall("call_1", "get_weather", '{"city": "Oslo"}')]),
        Message.tool("sunny", "call_1"),
    )
    assert answer(ChatRequest("teacher", messages)).text == "get_weather says for Oslo: sunny."


def test_it_knows_what_it_was_told_as_long_as_it_is_sent() -> None:
    assert say("My name is Ada.", "Hello Ada.", "What is my name?") == (
        "Your name is Ada: you said so in this conversation."
    )
    assert say("What is my name?") == "I do not know your name: no message that I was sent says it."
    assert say("Tea, please.", "Yes.", "What did I say first?") == (
        'The first thing you said that I can see is: "Tea, please."'
    )


def test_a_summary_is_the_first_sentence_of_each_message() -> None:
    summary = "Summary: user: I like tea. assistant: Good."
    assert say("I like tea. A lot.", "Good. Very.", "Summarize our talk, please.") == summary
    assert say("user: I like tea. A lot.\nassistant: Good.", system="You write a summary.") == summary


def test_plain_chat_repeats_what_it_sees() -> None:
    assert say("I like tea.") == (
        'You said: "I like tea." I see 1 message. I am a set of rules, not a language model, so I only repeat it.'
    )


def test_a_schema_is_filled_from_the_question() -> None:
    schema = form("name", "city", age={"type": "integer"})
    reply = answer(
        ChatRequest(
            "teacher", (Message.user("Ada is of age 36, and lives in London"),), response_schema=schema
        )
    )
    assert json.loads(reply.text) == {"name": "Ada", "city": "London", "age": 36}


def test_a_reply_by_schema_is_json_whatever_is_asked() -> None:
    schema = {"type": "object", "properties": {"tool": {"type": "string"}}, "required": ["tool"]}
    told = Message.system(f"Answer with JSON that fits this JSON Schema:\n{json.dumps(schema)}")
    for question, tool in (("Who are you?", ""), ("The tool is hammer.", "hammer")):
        messages = (told, Message.user(question))
        for request in (
            ChatRequest("teacher", messages),
            ChatRequest("teacher", messages, response_schema=schema),
            ChatRequest("teacher", messages[1:], response_schema=schema),
        ):
            assert json.loads(answer(request).text) == {"tool": tool}


def test_after_feedback_a_reply_by_schema_is_given_as_it_should_be() -> None:
    messages = (
        *(Message.user("Ada is of age 36."), Message.assistant("name is Ada")),
        Message.user("[Feedback]\nNo JSON was found."),
    )
    schema = form("name", age={"type": "integer"})
    reply = answer(ChatRequest("teacher", messages, response_schema=schema))
    assert json.loads(reply.text) == {"name": "Ada", "age": 36}


def test_a_megabyte_of_anything_is_answered() -> None:
    for text in (
        "weather in Oslo " * 65_000,
        '"' * 1_000_000,
        "A" * 1_000_000,
        "(" * 1_000_000,
        "1-" * 500_000,
    ):
        assert answer(ChatRequest("teacher", (Message.user(text),), TOOLS)).role == "assistant"


@given(st.text(), st.text())
def test_no_text_makes_it_fail(question: str, system: str) -> None:
    messages = (Message.system(system), Message.user(question))
    answer(ChatRequest("teacher", messages))
    answer(ChatRequest("teacher", (Message.system(PROMPT), *messages)))
    assert answer(ChatRequest("teacher", messages, TOOLS)).role == "assistant"
