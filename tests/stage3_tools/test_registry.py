import asyncio
import datetime as dt
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from stage0_gateway import ToolCall
from stage3_tools import (
    RegistrationError,
    Tool,
    ToolError,
    ToolOutput,
    ToolRegistry,
    build_tool_system_prompt,
    execute_tool_call,
    tool,
)
from tests.stage3_tools.conversation import Recorder
from tests.tables import for_each

WRONG_SCHEMA = {"type": "object", "properties": {"a": {"type": "strin"}}}


def named(name, execute=lambda arguments: None, parameters=None):
    return Tool(name, "", parameters, execute)


def test_one_tool_is_registered_and_returned():
    a, registry = named("a"), ToolRegistry()
    assert registry.register(a) is a
    assert registry.list() == [a]


def test_several_tools_are_registered_and_returned_in_order():
    b, a, registry = named("b"), named("a"), ToolRegistry()
    assert registry.register(b, a) == (b, a)
    assert registry.list() == [b, a]


def test_register_without_tools_returns_an_empty_tuple():
    registry = ToolRegistry()
    assert registry.register() == ()


def test_a_function_becomes_a_tool():
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    made = ToolRegistry().register(add)
    assert (made.name, made.description) == ("add", "Add two numbers.")
    assert made.parameters == tool(add).parameters


async def test_register_works_as_a_decorator():
    registry = ToolRegistry()

    @registry.register
    async def add(a: int, b: int) -> int:
        return a + b

    assert isinstance(add, Tool)
    assert await registry.execute("add", {"a": 1, "b": 2}) == 3


async def test_a_method_of_an_object_becomes_a_tool():
    class Counter:
        count = 0

        def add(self, by: int) -> int:
            self.count += by
            return self.count

    counter = Counter()
    registry = ToolRegistry(counter.add)
    assert await registry.execute("add", {"by": 2}) == counter.count == 2


def test_a_duplicate_name_raises_and_the_first_tool_stays():
    first = named("get_weather")
    registry = ToolRegistry(first, named("add"))
    with pytest.raises(RegistrationError) as caught:
        registry.register(named("get_weather"))
    assert str(caught.value) == (
        "There is a tool named 'get_weather' already; choose another name. Registered: get_weather, add."
    )
    assert registry.get("get_weather") is first


def test_two_tools_of_the_same_name_in_one_call_raise():
    with pytest.raises(RegistrationError) as caught:
        ToolRegistry().register(named("a"), named("b"), named("a"))
    assert str(caught.value) == (
        "There is a tool named 'a' already; choose another name. Registered: a, b."
    )


@for_each("given", [ToolRegistry, None, "add", [named("a")]])
def test_a_value_that_is_neither_a_tool_nor_a_function_raises_with_advice(given):
    with pytest.raises(RegistrationError) as caught:
        ToolRegistry(given)
    assert str(caught.value) == (
        f"{given!r} is not a function. Put @tool above a function, or make a tool with Tool(...); "
        "a list is given as register(*tools). For a method, after the class, make a tool of an "
        "object's method: tool(thing.method)."
    )


def test_a_long_value_is_shortened_in_the_error():
    with pytest.raises(RegistrationError) as caught:
        ToolRegistry().register("x" * 100_000)
    assert len(str(caught.value)) < 500


def test_an_invalid_schema_raises_an_error_with_its_location():
    registry = ToolRegistry()
    with pytest.raises(RegistrationError) as caught:
        registry.register(named("f", parameters=WRONG_SCHEMA))
    assert str(caught.value).startswith("f: The JSON Schema is invalid at $.properties.a.type: ")


def test_a_schema_that_is_not_json_raises_at_registration():
    with pytest.raises(RegistrationError):
        ToolRegistry(
            named("f", parameters={"type": "object", "default": {"day": dt.date(2024, 1, 2)}})
        )


@for_each("wrong", [named("there"), named("new"), object(), named("w", parameters=WRONG_SCHEMA)])
def test_if_one_of_several_tools_is_invalid_none_is_registered(wrong):
    there = named("there")
    registry = ToolRegistry(there)
    with pytest.raises(RegistrationError):
        registry.register(named("new"), wrong, named("last"))
    assert registry.list() == [there]


def test_unregister_returns_the_tool_and_frees_its_name():
    a, b = named("a"), named("b")
    registry = ToolRegistry(a, b)
    assert registry.unregister("a") is a
    assert registry.list() == [b]
    again = registry.register(named("a"))
    assert registry.list() == [b, again]


def test_unregistering_an_unknown_name_raises_with_the_nearest_name():
    registry = ToolRegistry(named("get_weather"), named("add"))
    with pytest.raises(RegistrationError) as caught:
        registry.unregister("get_wether")
    assert str(caught.value) == (
        "There is no tool named 'get_wether'. Available tools: get_weather, add. Did you mean get_weather?"
    )
    assert len(registry) == 2


async def test_a_running_call_continues_after_its_tool_is_unregistered():
    begun, proceed = asyncio.Event(), asyncio.Event()

    async def slow(arguments):
        begun.set()
        await proceed.wait()
        return "done"

    registry = ToolRegistry(named("slow", slow))
    call = asyncio.create_task(registry.execute("slow", {}))
    await begun.wait()
    registry.unregister("slow")
    proceed.set()
    assert await call == "done"
    assert "slow" not in registry


def test_concurrent_registrations_of_one_name_succeed_exactly_once():
    names = [f"t{number}" for number in range(200)]
    contests = [[named(name) for name in names] for _ in range(4)]
    for each in contests[1:] + contests[:1]:
        for one in each:
            _ = one.schema
    registry, interval = ToolRegistry(), sys.getswitchinterval()

    def register_all(tools):
        won = 0
        for each in tools:
            try:
                registry.register(each)
                won += 1
            except RegistrationError:
                pass
        return won

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            won = sum(pool.map(register_all, contests))
    finally:
        sys.setswitchinterval(interval)
    assert (won, sorted(registry.names)) == (200, sorted(names))


async def test_execute_returns_the_tools_own_value():
    value = ToolOutput({"a": 1}, details=object())
    tool = Recorder(returns=value)
    assert await ToolRegistry(tool.tool).execute("f", {"x": 1}) is value
    assert tool.seen == [{"x": 1}]


async def test_execute_rejects_invalid_arguments_and_runs_nothing():
    tool = Recorder(parameters={"type": "object", "required": ["x"]})
    with pytest.raises(ToolError, match="/x is missing"):
        await ToolRegistry(tool.tool).execute("f", {})
    assert tool.seen == []


@for_each(
    "raised, kind, message",
    [
        (ValueError("no"), "execution", "ValueError: no"),
        (PermissionError("no"), "permission", "PermissionError: no"),
    ],
)
async def test_execute_raises_a_failure_as_a_tool_error_with_its_cause(raised, kind, message):
    def failing(arguments):
        raise raised

    with pytest.raises(ToolError) as caught:
        await ToolRegistry(named("f", failing)).execute("f", {})
    assert (caught.value.kind, caught.value.message) == (kind, message)
    assert caught.value.__cause__ is raised


async def test_execute_raises_a_copy_of_a_tool_error_and_leaves_the_original_unchanged():
    own = ToolError(
        "permission", "ask the owner", hint="Ask.", details={"owner": "o", "issues": ("mine",)}
    )

    def failing(arguments):
        raise own

    registry = ToolRegistry(named("f", failing))
    with pytest.raises(ToolError) as caught:
        await registry.execute("f", {})
    error = caught.value
    assert (error.kind, error.message, error.hint) == ("permission", "ask the owner", "Ask.")
    assert error.details == {
        "expected_schema": None,
        "issues": ("mine",),
        "available_tools": ("f",),
        "owner": "o",
    }
    assert own.details == {"owner": "o", "issues": ("mine",)}


@for_each(
    "name, arguments, kind, schema, issues",
    [
        ("g", {}, "not_found", None, []),
        ("f", {}, "validation", {"required": ["x"]}, ["/x"]),
        ("f", [], "validation", {"required": ["x"]}, []),
        ("f", {"x": 1}, "execution", {"required": ["x"]}, []),
    ],
)
async def test_every_error_of_execute_has_the_schema_the_issues_and_the_tool_names(
    name, arguments, kind, schema, issues
):
    def failing(arguments):
        raise ValueError("no")

    registry = ToolRegistry(named("f", failing, {"required": ["x"]}), named("other"))
    with pytest.raises(ToolError) as caught:
        await registry.execute(name, arguments)
    details = caught.value.details
    assert (caught.value.kind, details["expected_schema"]) == (kind, schema)
    assert ([each.path for each in details["issues"]], type(details["issues"])) == (issues, tuple)
    assert details["available_tools"] == ("f", "other")


async def test_an_extended_copy_has_the_additional_tools_last_and_can_run_them():
    more = named("more", lambda arguments: "more")
    registry = ToolRegistry(named("a"), named("b"))
    extended = registry.extended(more)
    assert (extended.names, registry.names) == (("a", "b", "more"), ("a", "b"))
    assert [*extended] == [*registry, more]
    assert '"more"' in build_tool_system_prompt(extended)
    result = await execute_tool_call(extended, ToolCall("c", "more", "{}"))
    assert (result.output, result.status) == ("more", "completed")


def test_a_registered_tool_takes_precedence_over_an_added_tool_of_the_same_name():
    own = named("more")
    registry = ToolRegistry(own)
    assert registry.extended(named("more")).list() == [own]


def test_a_registry_is_iterable_and_an_empty_one_is_true():
    a, b = named("a"), named("b")
    assert [*ToolRegistry(a, b)] == [a, b]
    assert (bool(ToolRegistry()), len(ToolRegistry())) == (True, 0)


def test_tools_are_found_by_category_and_tag_and_neither_is_shown_to_the_model():
    ferry = tool(name="ferry", category="travel", tags=["sea", "slow"])(lambda: None)
    train = Tool("train", execute=lambda arguments: None, category="travel", tags=["rail"])
    fish = Tool("fish", execute=lambda arguments: None, category="food", tags=["sea"])
    registry = ToolRegistry(ferry, train, fish)
    assert registry.search() == registry.list() == [ferry, train, fish]
    assert registry.search(category="travel") == [ferry, train]
    assert registry.search(tag="sea") == [ferry, fish]
    assert registry.search(category="travel", tag="sea") == [ferry]
    assert registry.search(category="food", tag="rail") == []
    for shown in (registry.described(), str(registry.specs())):
        assert not [word for word in ("travel", "food", "sea", "slow", "rail") if word in shown]


def test_the_description_is_updated_after_each_change():
    registry = ToolRegistry(named("a"))
    first = registry.described()
    assert registry.described() is first
    registry.register(named("b"))
    assert [json.loads(line)["name"] for line in registry.described().splitlines()] == ["a", "b"]
    registry.unregister("a")
    assert json.loads(registry.described())["name"] == "b"


async def test_argument_names_that_are_not_text_raise_an_error():
    with pytest.raises(ToolError, match="names of arguments must be text"):
        await ToolRegistry(named("a")).execute("a", {1: 2})
