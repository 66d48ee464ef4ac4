import pytest

from stage0_gateway.offline.matching import best_tool
from stage0_gateway.request import ToolSpec

TOOLS = (
    ToolSpec("get_weather", "Get the current weather of a city."),
    ToolSpec("getTime", "Tell the current time in a timezone."),
    ToolSpec("calculator", "Evaluate an arithmetic expression."),
    ToolSpec("web.search", "Search the web."),
)


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("What is the weather in Shanghai?", "get_weather"),
        ("How hot is it in Rome?", "get_weather"),
        ("上海的天气怎么样？", "get_weather"),
        ("What time is it?", "getTime"),
        ("现在几点？", "getTime"),
        ("What is 12 * (3 + 4)?", "calculator"),
        ("Search the web for cats", "web.search"),
    ],
)
def test_the_tool_whose_words_are_said_is_picked(question: str, name: str) -> None:
    tool = best_tool(question, TOOLS)
    assert tool is not None
    assert tool.name == name


@pytest.mark.parametrize("question", ["Tell me a joke", "Hello", "", "???", "I like the current city"])
def test_no_tool_is_picked_where_none_is_spoken_of(question: str) -> None:
    assert best_tool(question, TOOLS) is None


def test_of_two_that_fit_alike_the_first_registered_is_picked() -> None:
    twins = (ToolSpec("weather_a", ""), ToolSpec("weather_b", ""))
    assert best_tool("weather", twins) is twins[0]
