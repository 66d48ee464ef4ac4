import asyncio
import functools
import threading

import pytest

from stage3_tools import (
    RegistrationError,
    Retry,
    Tool,
    ToolContext,
    ToolError,
    ToolRegistry,
    tool,
)
from stage3_tools.execution.invocation import invoke
from tests.stage3_tools.clock import without_waiting
from tests.tables import for_each


def nothing(arguments):
    return None


class Counter:
    """A callable object."""

    def __init__(self):
        self.total = 0

    async def __call__(self, arguments):
        return self.total


class Blocking:
    """A plain function that blocks its thread until it is released."""

    def __init__(self):
        self.released = threading.Event()
        self.thread = None

    def __call__(self, arguments):
        self.thread = threading.current_thread()
        return self.released.wait(30)


@for_each(
    "given, says",
    [
        ({"name": ""}, "'' cannot be a tool's name: use 1 to 256 printable characters."),
        ({"name": "   "}, "'   ' cannot be a tool's name: use 1 to 256 printable characters."),
        ({"name": "a\nb"}, "'a\\nb' cannot be a tool's name: use 1 to 256 printable characters."),
        ({"name": "a\u2028b"}, "cannot be a tool's name"),
        ({"name": "x" * 257}, "cannot be a tool's name"),
        ({"execute": "f"}, "f: execute is str, not a function. Use Tool(name=…, execute=function)"),
        (
            {"execute": None},
            "f: execute is missing. Use Tool(name=…, execute=function), or put @tool above the "
            "function.",
        ),
        ({"category": 5}, "f: category is int, not text."),
        ({"tags": "sea"}, "f: tags is 'sea'; use a list of texts."),
        ({"tags": 5}, "f: tags is 5; use a list of texts."),
        ({"tags": ["sea", 5]}, "f: tags is ['sea', 5]; use a list of texts."),
        ({"effect": "delete"}, "f: effect is 'delete'; use 'read', 'idempotent' or 'write'."),
        ({"timeout": 0}, "f: timeout is 0; it must be above 0 seconds."),
        ({"name": 5}, "5 cannot be a tool's name"),
        ({"name": "a\u200bb"}, "cannot be a tool's name"),
        ({"name": "\ud800"}, "cannot be a tool's name"),
        ({"description": None}, "f: description is NoneType, not text."),
        ({"timeout": float("nan")}, "f: timeout is nan; it must be above 0 seconds."),
        ({"timeout": True}, "f: timeout is True; it must be above 0 seconds."),
        ({"parse": {}}, "f: parse is dict, not a function."),
        ({"effect": "read", "retry": -1}, "f: retry is -1; use a number of retries, Retry("),
        (
            {"effect": "read", "retry": (1, 2)},
            "f: retry is (1, 2); use a number of retries, Retry(",
        ),
        (
            {"retry": 1},
            "f: a write is never retried. If a repetition does no harm, use effect='idempotent'.",
        ),
    ],
)
def test_invalid_settings_raise_a_registration_error(given, says):
    with pytest.raises(RegistrationError) as caught:
        Tool(**{"name": "f", "description": "", "parameters": None, "execute": nothing, **given})
    assert says in str(caught.value)


@for_each("effect", ["read", "idempotent", "write"])
def test_a_given_effect_is_declared(effect):
    made = Tool("f", "", None, nothing, effect=effect)
    assert (made.effect, made.declares_effect) == (effect, True)


def test_an_effect_that_is_not_declared_is_a_write():
    def f() -> None:
        """Do nothing."""

    registered = ToolRegistry(f).get("f")
    made = [Tool("f", "", None, nothing), registered, tool(f), tool(name="f")(f)]
    assert [(each.effect, each.declares_effect) for each in made] == [("write", False)] * 4
    assert made[0] == Tool("f", "", None, nothing, effect="write")


@for_each("name", ["get_weather", "math.sum", "../../etc/passwd", "天气", "a b", "x" * 256])
def test_any_printable_name_is_valid(name):
    assert ToolRegistry(Tool(name, "", None, nothing)).get(name).name == name


@for_each(
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
)
def test_parameters_that_are_not_an_object_schema_raise_an_error_with_the_name(parameters):
    with pytest.raises(RegistrationError, match=r"^f: "):
        _ = Tool("f", "", parameters, nothing).schema


def test_without_parameters_any_arguments_are_valid():
    assert Tool("f", "", None, nothing).schema.issues({"any": ["thing"]}) == ()


@for_each(
    "execute",
    [
        Counter(),
        functools.partial(Counter.__call__, Counter()),
        lambda arguments: Counter()(arguments),
    ],
)
async def test_every_awaitable_result_is_awaited(execute):
    assert await invoke(Tool("f", "", None, execute), {}) == 0


async def test_a_plain_function_does_not_block_the_event_loop():
    blocking = Blocking()
    running = asyncio.create_task(invoke(Tool("f", "", None, blocking), {}))
    for _ in range(50):
        await asyncio.sleep(0)  # the event loop runs while the tool blocks
    assert not running.done()
    blocking.released.set()
    assert await running is True
    assert blocking.thread is not threading.main_thread()


async def test_an_async_function_runs_in_the_thread_of_the_event_loop():
    async def where(arguments):
        return threading.current_thread()

    assert await invoke(Tool("f", "", None, where), {}) is threading.main_thread()


@without_waiting
async def test_a_tool_that_exceeds_its_timeout_raises_an_error_with_the_limit():
    async def forever(arguments):
        await asyncio.Event().wait()

    with pytest.raises(ToolError) as caught:
        await invoke(Tool("f", "", None, forever, timeout=60), {})
    error = caught.value
    assert (error.kind, error.message, error.retryable) == (
        "timeout",
        "f took longer than 60 s.",
        True,
    )


@without_waiting
async def test_a_blocking_tool_ends_at_its_timeout():
    blocking = Blocking()
    try:
        with pytest.raises(ToolError, match=r"f took longer than 60 s\."):
            await invoke(Tool("f", "", None, blocking, timeout=60), {})
    finally:
        blocking.released.set()


@for_each("plain", [True, False])
async def test_a_timeout_error_raised_by_the_tool_is_unchanged(plain):
    def raising(arguments):
        raise TimeoutError("the printer")

    async def waiting(arguments):
        raise TimeoutError("the printer")

    with pytest.raises(TimeoutError, match="the printer"):
        await invoke(Tool("f", "", None, raising if plain else waiting), {})


async def test_a_stop_iteration_in_a_plain_tool_fails_at_once():
    with pytest.raises(RuntimeError):
        await invoke(Tool("f", "", None, lambda arguments: next(iter([])), timeout=30), {})


def test_a_tool_keeps_all_its_settings():
    given = {
        "parse": int,
        "effect": "idempotent",
        "timeout": 2.5,
        "retry": Retry(2, 0.5),
        "exclusive": True,
        "category": "travel",
        "tags": ("sea", "rail"),
    }
    about = {"needs_approval": bool}
    made = Tool("f", "d", None, nothing, **given, **about)
    assert {each: getattr(made, each) for each in (*given, *about)} == {**given, **about}
    assert repr(made) == (
        "Tool(name='f', description='d', parameters=None, effect='idempotent', timeout=2.5, "
        f"retry=Retry(max_retries=2, delay=0.5), needs_approval={bool!r}, exclusive=True, "
        "category='travel', tags=('sea', 'rail'))"
    )


# ---- context parameters


def annotated(arguments, anything: ToolContext = None):
    return type(anything).__name__


def quoted(arguments, anything: "ToolContext | None" = None):
    return type(anything).__name__


class Method:
    def __call__(self, arguments, context):
        return type(context).__name__

    def method(self, arguments, context):
        return type(context).__name__

    async def waiting(self, arguments, context=None):
        return type(context).__name__


def with_context(arguments, context, more=1):
    return type(context).__name__


@functools.wraps(with_context)
def wrapped(*arguments):
    return with_context(*arguments)


@for_each(
    "execute",
    [
        annotated,
        quoted,
        with_context,
        wrapped,
        functools.partial(with_context, more=2),
        Method(),
        Method().method,
        Method().waiting,
        lambda arguments, anything: type(anything).__name__,
        lambda arguments, context=None: type(context).__name__,
    ],
)
async def test_a_second_parameter_for_a_context_receives_it(execute):
    assert await invoke(Tool("f", "", None, execute), {}) == "ToolContext"


@for_each(
    "execute, value",
    [
        (lambda arguments, x=7: x, 7),
        (lambda *arguments: len(arguments), 1),
        (lambda arguments, *more: len(more), 0),
        (lambda arguments, **more: len(more), 0),
        (lambda arguments, *, context=None: context, None),
        (functools.partial(with_context, context=1), "int"),
        (functools.partial(lambda a, b: (a, b), 7), (7, {})),
        (len, 0),
        (sorted, []),
        (dict, {}),
        (lambda context: context, {}),
    ],
)
async def test_functions_without_a_context_parameter_receive_no_context(execute, value):
    assert await invoke(Tool("f", "", None, execute), {}) == value


def by_keyword(arguments, *, context: ToolContext = None): ...
def first(context: ToolContext): ...
def third(arguments, more=1, anything: ToolContext = None): ...


@for_each(
    "execute",
    [
        lambda: 1,
        lambda a, b, c: 1,
        lambda **named: 1,
        lambda a, *, context: 1,
        by_keyword,
        first,
        third,
        functools.partial(with_context, arguments={}),
    ],
)
def test_a_function_with_an_unsupported_signature_raises_an_error(execute):
    with pytest.raises(
        RegistrationError, match="it must take one dict of arguments, or that and a ToolContext"
    ):
        Tool("f", "", None, execute)


def of_one_city(city): ...
def of_days(city: str, days: int): ...
def of_city_and_context(city, context): ...


OF_CITY = {"type": "object", "properties": {"city": {"type": "string"}}}


@for_each(
    "execute, names",
    [(of_one_city, "city"), (of_days, "city, days"), (of_city_and_context, "city, context")],
)
def test_a_function_of_named_arguments_raises_an_error_that_suggests_the_decorator(execute, names):
    with pytest.raises(RegistrationError) as caught:
        Tool("w", parameters=OF_CITY, execute=execute)
    assert str(caught.value) == (
        f"w: execute takes the parameters {names}; it must take one dict of arguments, or that and "
        "a ToolContext. Use @tool, which derives the schema from the function's parameters."
    )


def test_a_second_parameter_of_another_type_is_not_a_context():
    with pytest.raises(RegistrationError, match="w: execute takes the parameters city, days;"):
        Tool(name="w", execute=of_days)
    with pytest.raises(RegistrationError, match=r"w: execute takes the parameters \(none\);"):
        Tool(name="w", execute=lambda: 1)


@for_each("name", ["arguments", "args"])
async def test_arguments_and_args_may_also_be_property_names(name):
    execute = eval(f"lambda {name}: {name}")
    schema = {"type": "object", "properties": {name: {"type": "string"}}}
    made = Tool("w", parameters=schema, execute=execute)
    assert await invoke(made, {name: "x"}) == {name: "x"}


async def test_with_parse_the_parameter_may_have_any_name():
    made = Tool("w", parameters=OF_CITY, execute=lambda city: city, parse=lambda given: given)
    assert await invoke(made, "Rome") == "Rome"


async def test_a_name_and_a_function_are_enough():
    made = Tool(name="f", execute=nothing)
    assert (made.description, made.parameters) == ("", None)
    assert await ToolRegistry(made).execute("f", {"any": "thing"}) is None
    with pytest.raises(RegistrationError, match="f: execute is missing"):
        Tool(name="f")


def yields(arguments):
    yield arguments


async def yields_later(arguments):
    yield arguments


class Yields:
    def __call__(self, arguments):
        yield arguments


@for_each("execute", [yields, yields_later, functools.partial(yields), Yields(), Yields().__call__])
def test_a_generator_raises_an_error_with_advice(execute):
    with pytest.raises(RegistrationError) as caught:
        Tool("f", "", None, execute)
    assert str(caught.value) == (
        "f: a tool cannot be a generator. Return a list, and report progress with context.progress(…)."
    )


@for_each("name", ["parse", "needs_approval"])
def test_an_async_function_for_parse_or_needs_approval_raises_an_error(name):
    async def later(arguments): ...

    with pytest.raises(RegistrationError, match=f"f: {name} is an async function"):
        Tool("f", "", None, print, **{name: later})
