import pytest

from stage3_tools import Tool, ToolError, ToolRegistry
from tests.tables import for_each


def named(name, execute=lambda arguments: None, parameters=None):
    return Tool(name, "", parameters, execute)


@pytest.fixture(scope="module")
def many():
    """Return two thousand tools in a hundred groups, with precompiled schemas to save time."""
    compiled = named("any").schema
    tools = [named(f"server{number % 100}.tool{number}") for number in range(2_000)]
    for each in tools:
        vars(each)["schema"] = compiled
    return tools


def test_tools_are_listed_in_registration_order():
    b, a = named("b"), named("a")
    registry = ToolRegistry(b)
    registry.register(a)
    assert (registry.list(), registry.names) == ([b, a], ("b", "a"))
    assert (len(registry), "a" in registry, "c" in registry) == (2, True, False)
    assert repr(registry) == "ToolRegistry(b, a)"


@for_each("name", [None, 1, ["a"], {"a": 1}])
def test_a_value_that_is_not_text_is_not_in_the_registry(name):
    assert name not in ToolRegistry(named("a"))


def test_list_returns_a_copy():
    registry = ToolRegistry(named("a"))
    registry.list().clear()
    assert [each.name for each in registry.list()] == ["a"]


def test_thousands_of_tools_can_be_registered_and_looked_up(many):
    registry = ToolRegistry(*many[:1000])
    for each in many[1000:]:
        assert each.name not in registry
        registry.register(each)
        assert registry.get(each.name) is each
    assert registry.list() == many


@for_each(
    "asked, message, hint",
    [
        (
            "get_wether",
            "There is no tool named 'get_wether'. Available tools: get_weather, add.",
            "Did you mean get_weather?",
        ),
        ("zzz", "There is no tool named 'zzz'. Available tools: get_weather, add.", None),
        ("", "There is no tool named ''. Available tools: get_weather, add.", None),
        (None, "There is no tool named 'None'. Available tools: get_weather, add.", None),
        (["zzz"], "There is no tool named \"['zzz']\". Available tools: get_weather, add.", None),
    ],
)
def test_an_unknown_tool_raises_an_error_with_the_nearest_name(asked, message, hint):
    with pytest.raises(ToolError) as caught:
        ToolRegistry(named("get_weather"), named("add")).get(asked)
    error = caught.value
    assert (error.kind, error.message, error.hint) == ("not_found", message, hint)
    assert error.details == {
        "expected_schema": None,
        "issues": (),
        "available_tools": ("get_weather", "add"),
    }


@for_each("count, ends", [(0, "Available tools: none."), (50, ", t49."), (53, ", t49 and 3 more.")])
def test_an_unknown_tool_raises_an_error_with_at_most_fifty_names(count, ends):
    registry = ToolRegistry(*(named(f"t{number}") for number in range(count)))
    with pytest.raises(ToolError) as caught:
        registry.get("nope")
    assert caught.value.message.endswith(ends)


@for_each("number", [0, 1050, 1999])
def test_the_nearest_of_thousands_of_names_has_the_same_prefix(many, number):
    meant = f"server{number % 100}.tool{number}"
    with pytest.raises(ToolError) as caught:
        ToolRegistry(*many).get(meant.replace("tool", "tol"))
    assert caught.value.hint == f"Did you mean {meant}?"


def test_texts_about_thousands_of_tools_stay_short(many):
    registry = ToolRegistry(*many)
    with pytest.raises(ToolError) as caught:
        registry.get("zzz")
    assert len(caught.value.message) < 1000
    assert len(repr(registry)) < 1000
