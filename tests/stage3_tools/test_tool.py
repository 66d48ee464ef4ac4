import asyncio
import contextlib
import datetime as dt
import functools
import threading

import pytest

from stage3_tools import RegistrationError, Tool, ToolError, ToolRegistry, tool


def nothing(arguments):
    return None


class Counter:
    """What tools may be made of besides functions."""

    def __init__(self):
        self.total = 0

    def add(self, number: int) -> int:
        """Count on.

        Args:
            number: How far.
        """
        self.total += number
        return self.total

    async def __call__(self, arguments):
        return self.total


class Holding:
    """A plain function that blocks its thread until it is let go."""

    def __init__(self):
        self.let_go = threading.Event()
        self.thread = None

    def __call__(self, arguments):
        self.thread = threading.current_thread()
        return self.let_go.wait(5)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"name": ""}, "'' cannot be a tool's name: 1 to 256 printable characters."),
        ({"name": "   "}, "'   ' cannot be a tool's name: 1 to 256 printable characters."),
        ({"name": "a\nb"}, "'a\\nb' cannot be a tool's name: 1 to 256 printable characters."),
        ({"name": "a\u2028b"}, "cannot be a tool's name"),
        ({"name": "x" * 257}, "cannot be a tool's name"),
        ({"execute": "f"}, "f: execute is str, not a function."),
        ({"effect": "delete"}, "f: effect is 'delete'; use 'read', 'idempotent' or 'write'."),
        ({"timeout": 0}, "f: timeout is 0; it must be above 0 seconds."),
        (
            {"name": 5},
            "5 cannot be a tool's name",
        ),
    ],
    ids=["empty", "blank", "line break", "U+2028", "too long", "no function", "effect", "timeout", "no text"],
)
def test_what_cannot_work_is_refused_at_once_and_in_words(given, says):
    with pytest.raises(RegistrationError) as caught:
        Tool(**{"name": "f", "description": "", "parameters": None, "execute": nothing, **given})
    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["get_weather", "math.sum", "../../etc/passwd", "天气", "a b", "x" * 256])
def test_any_printable_name_will_do(name):
    assert ToolRegistry(Tool(name, "", None, nothing)).get(name).name == name


@pytest.mark.parametrize(
    "parameters",
    [
        [],
        "object",
        {"type": "objekt"},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"$ref": "#/$defs/none"},
        {"type": "array"},
        True,
    ],
    ids=["list", "text", "unknown type", "bad pattern", "dangling $ref", "schema of a list", "boolean"],
)
def test_parameters_that_are_no_schema_of_an_object_are_refused_by_name(parameters):
    with pytest.raises(RegistrationError, match=r"^f: "):
        _ = Tool("f", "", parameters, nothing).schema


def test_no_parameters_check_nothing():
    assert Tool("f", "", None, nothing).schema.issues({"any": ["thing"]}) == ()


def test_a_decorated_function_is_a_tool_with_its_name_and_docstring():
    @tool
    def get_weather(city: str) -> str:
        """Tell the weather."""
        return f"sun in {city}"

    assert (get_weather.name, get_weather.description) == ("get_weather", "Tell the weather.")
    assert (get_weather.effect, get_weather.timeout) == ("write", None)
    assert get_weather.parameters == {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }


def test_what_the_decorator_is_told_wins_over_the_function():
    @tool(name="weather", description="", effect="read", timeout=2)
    def get_weather(city: str) -> str:
        """Tell the weather."""

    assert (get_weather.name, get_weather.description) == ("weather", "")
    assert (get_weather.effect, get_weather.timeout) == ("read", 2)


async def test_plain_and_async_functions_are_run_alike():
    @tool
    def plain(a: int, b: int = 2):
        return a, b

    @tool
    async def waiting(a: int, b: int = 2):
        return a, b

    assert [await each.run({"a": 1}) for each in (plain, waiting)] == [(1, 2), (1, 2)]


async def test_a_function_gets_the_types_of_its_signature():
    @tool
    def weekday(day: dt.date):
        return day.strftime("%Y")

    assert await ToolRegistry(weekday).execute("weekday", {"day": "2024-01-02"}) == "2024"


async def test_a_method_keeps_its_object_and_takes_no_self_from_the_model():
    counter = Counter()
    add = tool(counter.add)
    assert await add.run({"number": 3}) == counter.total == 3
    assert add.parameters["properties"] == {"number": {"type": "integer", "description": "How far."}}


@pytest.mark.parametrize(
    "execute",
    [Counter(), functools.partial(Counter.__call__, Counter()), lambda arguments: Counter()(arguments)],
    ids=["object", "partial", "plain function that gives an awaitable"],
)
async def test_whatever_is_awaitable_is_awaited(execute):
    assert await Tool("f", "", None, execute).run({}) == 0


@pytest.mark.parametrize("function", [functools.partial(Counter().add), Counter()], ids=["partial", "object"])
def test_a_callable_without_a_name_becomes_a_tool_or_is_refused_in_words(function):
    with contextlib.suppress(RegistrationError):
        assert tool(function).name


async def test_a_plain_function_blocks_its_thread_and_not_the_event_loop():
    holding = Holding()
    running = asyncio.create_task(Tool("f", "", None, holding).run({}))
    for _ in range(50):
        await asyncio.sleep(0)  # the loop goes round while the tool waits
    assert not running.done()
    holding.let_go.set()
    assert await running is True
    assert holding.thread is not threading.main_thread()


async def test_an_async_function_runs_in_the_event_loop_itself():
    async def where(arguments):
        return threading.current_thread()

    assert await Tool("f", "", None, where).run({}) is threading.main_thread()


async def test_a_tool_that_takes_too_long_is_told_with_its_limit():
    async def forever(arguments):
        await asyncio.Event().wait()

    with pytest.raises(ToolError) as caught:
        await Tool("f", "", None, forever, timeout=0.01).run({})
    error = caught.value
    assert (error.kind, error.message, error.retryable) == ("timeout", "f took longer than 0.01 s.", True)


async def test_a_blocking_tool_is_not_waited_for_longer_than_its_timeout():
    holding = Holding()
    try:
        with pytest.raises(ToolError, match=r"f took longer than 0\.01 s\."):
            await Tool("f", "", None, holding, timeout=0.01).run({})
    finally:
        holding.let_go.set()


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
async def test_a_timeout_of_the_tools_own_stays_its_own(plain):
    def raising(arguments):
        raise TimeoutError("the printer")

    async def waiting(arguments):
        raise TimeoutError("the printer")

    with pytest.raises(TimeoutError, match="the printer"):
        await Tool("f", "", None, raising if plain else waiting).run({})


async def test_a_stop_iteration_in_a_plain_tool_is_its_failure_and_not_a_wait_for_the_timeout():
    with pytest.raises(RuntimeError):
        await Tool("f", "", None, lambda arguments: next(iter([])), timeout=0.05).run({})


@pytest.mark.parametrize("execute", [lambda: 1, lambda a, b: 1], ids=["none", "two"])
def test_a_function_that_cannot_take_one_dict_is_refused(execute):
    with pytest.raises(RegistrationError, match="execute must take one argument, the dict of arguments"):
        Tool("f", "", None, execute)
