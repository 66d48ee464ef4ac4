import datetime as dt

import pytest

from stage3_tools import RegistrationError, Tool, ToolError, ToolOutput, ToolRegistry


def named(name, execute=lambda arguments: None, parameters=None):
    return Tool(name, "", parameters, execute)


def test_tools_are_listed_in_the_order_they_were_registered():
    b, a = named("b"), named("a")
    registry = ToolRegistry(b)
    assert registry.register(a) is a
    assert registry.list() == [b, a]
    assert (len(registry), "a" in registry, "c" in registry) == (2, True, False)
    assert repr(registry) == "ToolRegistry(b, a)"


def test_the_list_is_a_copy():
    registry = ToolRegistry(named("a"))
    registry.list().clear()
    assert len(registry) == 1


def test_the_version_grows_with_each_tool_and_not_with_one_that_was_refused():
    registry = ToolRegistry(named("a"), named("b"))
    with pytest.raises(RegistrationError):
        registry.register(named("a"))
    assert registry.version == 2


def test_a_name_that_is_taken_is_refused_and_the_first_tool_stays():
    first = named("get_weather")
    registry = ToolRegistry(first, named("add"))
    with pytest.raises(RegistrationError) as caught:
        registry.register(named("get_weather"))
    assert str(caught.value) == (
        "There is a tool named 'get_weather' already; choose another name. Registered: get_weather, add."
    )
    assert registry.get("get_weather") is first


def test_what_is_no_tool_is_refused_with_what_to_do():
    def plain(): ...

    with pytest.raises(RegistrationError) as caught:
        ToolRegistry(plain)
    assert str(caught.value).endswith(
        " is not a Tool. Put @tool above the function, or make one with Tool(...)."
    )


def test_a_schema_that_is_none_is_refused_and_says_where():
    registry = ToolRegistry()
    with pytest.raises(RegistrationError) as caught:
        registry.register(named("f", parameters={"type": "object", "properties": {"a": {"type": "strin"}}}))
    assert str(caught.value).startswith("f: The JSON Schema is wrong at $.properties.a.type: ")
    assert registry.list() == []


def test_a_schema_that_json_cannot_hold_is_refused_when_it_is_registered():
    with pytest.raises(RegistrationError):
        ToolRegistry(named("f", parameters={"type": "object", "default": {"day": dt.date(2024, 1, 2)}}))


@pytest.mark.parametrize(
    ("asked", "message", "hint"),
    [
        (
            "get_wether",
            "There is no tool named 'get_wether'. Available tools: get_weather, add.",
            "Did you mean get_weather?",
        ),
        ("zzz", "There is no tool named 'zzz'. Available tools: get_weather, add.", None),
        ("", "There is no tool named ''. Available tools: get_weather, add.", None),
        (None, "There is no tool named 'None'. Available tools: get_weather, add.", None),
    ],
)
def test_an_unknown_tool_is_answered_with_the_nearest_name(asked, message, hint):
    with pytest.raises(ToolError) as caught:
        ToolRegistry(named("get_weather"), named("add")).get(asked)
    error = caught.value
    assert (error.kind, error.message, error.hint) == ("not_found", message, hint)
    assert error.details == {"available_tools": ["get_weather", "add"]}


@pytest.mark.parametrize(
    ("count", "ends"),
    [(0, "Available tools: none."), (50, ", t49."), (53, ", t49 and 3 more.")],
    ids=["no tools", "fifty", "more"],
)
def test_an_unknown_tool_is_answered_with_at_most_fifty_names(count, ends):
    registry = ToolRegistry(*(named(f"t{number}") for number in range(count)))
    with pytest.raises(ToolError) as caught:
        registry.get("nope")
    assert caught.value.message.endswith(ends)


async def test_execute_returns_the_tools_own_value(recorder):
    value = ToolOutput({"a": 1}, details=object())
    tool = recorder(returns=value)
    assert await ToolRegistry(tool.tool).execute("f", {"x": 1}) is value
    assert tool.seen == [{"x": 1}]


async def test_execute_refuses_arguments_that_do_not_fit_and_runs_nothing(recorder):
    tool = recorder(parameters={"type": "object", "required": ["x"]})
    with pytest.raises(ToolError, match="/x is missing"):
        await ToolRegistry(tool.tool).execute("f", {})
    assert tool.seen == []


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (ValueError("no"), "execution", "ValueError: no"),
        (PermissionError("no"), "permission", "PermissionError: no"),
    ],
    ids=["ValueError", "PermissionError"],
)
async def test_execute_raises_a_tools_failure_as_a_tool_error_with_its_cause(raised, kind, message):
    def failing(arguments):
        raise raised

    with pytest.raises(ToolError) as caught:
        await ToolRegistry(named("f", failing)).execute("f", {})
    assert (caught.value.kind, caught.value.message) == (kind, message)
    assert caught.value.__cause__ is raised


async def test_execute_lets_a_tools_own_tool_error_pass_unchanged():
    own = ToolError("permission", "ask the owner")

    def failing(arguments):
        raise own

    with pytest.raises(ToolError) as caught:
        await ToolRegistry(named("f", failing)).execute("f", {})
    assert caught.value is own
