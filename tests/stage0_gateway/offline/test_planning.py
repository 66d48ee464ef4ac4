import pytest

from stage0_gateway.messages import Message, ToolCall
from stage0_gateway.offline.planning import Need, needs
from stage0_gateway.offline.reading import read
from stage0_gateway.request import ChatRequest, ToolSpec

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec("get_weather", "Get the current weather of a city.", CITY)
TIME = ToolSpec("get_time", "Tell the current time.")
OSLO = Need(WEATHER, {"city": "Oslo"}, ())
ROME = Need(WEATHER, {"city": "Rome"}, ())
NOW = Need(TIME, {}, ())
NOWHERE = Need(WEATHER, {}, ("city",))
EARLIER = (
    Message.user("Weather in Oslo?"),
    Message.assistant("", [ToolCall("call_1", "get_weather", '{"city": "Oslo"}')]),
    Message.tool("sunny", "call_1"),
)


def needed(question: str, *earlier: Message, choice: str | None = None) -> list[Need]:
    messages = (*earlier, Message.user(question))
    return needs(read(ChatRequest("teacher", messages, (WEATHER, TIME), tool_choice=choice)))


@pytest.mark.parametrize(
    ("question", "calls"),
    [
        ("What is the weather in Oslo, and what time is it?", [OSLO, NOW]),
        ("What time is it? And the weather in Oslo and Rome?", [NOW, OSLO, ROME]),
        ("Weather in Oslo, then the time, then the weather in Oslo", [OSLO, NOW]),
        ("Weather in Oslo, then the time, then the weather in Rome", [OSLO, NOW, ROME]),
        ("几点？奥斯陆", [NOW]),
        ("Tell me a joke, and then another", []),
        ("What time is it, and in which city?", [NOW]),
        ("", []),
    ],
)
def test_each_clause_brings_its_call_once_and_in_order(question: str, calls: list[Need]) -> None:
    assert needed(question) == calls


def test_what_its_clause_does_not_say_is_taken_from_the_whole_question() -> None:
    assert needed("I am in Oslo. What time is it? And the weather?") == [NOW, OSLO]
    assert needed("What time is it? And the weather?") == [NOW, NOWHERE]


@pytest.mark.parametrize(
    ("question", "calls"),
    [
        ("And in Rome?", [ROME]),
        ("What about Rome?", [ROME]),
        ("那罗马呢", [Need(WEATHER, {"city": "罗马"}, ())]),
        ("In Rome?", []),
    ],
)
def test_a_follow_up_that_names_no_tool_means_the_last_one(question: str, calls: list[Need]) -> None:
    assert needed(question, *EARLIER) == calls


def test_a_follow_up_to_nothing_needs_nothing() -> None:
    assert needed("And in Rome?") == []


@pytest.mark.parametrize(
    ("choice", "question", "calls"),
    [
        ("auto", "Hello", []),
        ("none", "Hello", []),
        ("required", "Hello", [NOWHERE]),
        ("get_time", "Hello", [NOW]),
        ("get_time", "Weather in Oslo? And what time is it?", [NOW]),
        ("get_news", "Weather in Oslo?", []),
    ],
)
def test_the_callers_choice_goes_before_the_words(choice: str, question: str, calls: list[Need]) -> None:
    assert needed(question, choice=choice) == calls


def test_what_follows_the_twelfth_break_is_read_as_one_clause() -> None:
    asked = "What time is it? And the weather in Oslo?"
    assert needed("So be it. " * 11 + asked) == [NOW, OSLO]
    assert len(needed("So be it. " * 12 + asked)) == 1
    assert needed("Weather in Oslo? " + "What time is it? " * 5_000) == [OSLO, NOW]
