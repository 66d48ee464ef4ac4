"""Exceptions and values whose own code raises when they are read: each becomes a result."""

import dataclasses

import pydantic
import pytest

from stage0_gateway import Message, TextPart, ToolCall
from stage3_tools import (
    NativeDialect,
    PromptDialect,
    Tool,
    ToolError,
    ToolOutput,
    ToolRegistry,
    execute_tool_call,
    execute_tool_calls,
)
from tests.stage3_tools.conversation import DONE, Recorder, call
from tests.tables import for_each

CALL = ToolCall("c", "f", "{}")


def leave(*_, **__):
    raise SystemExit(7)


class Text(Exception):
    __str__ = __repr__ = leave


class Attributes(Exception):
    response = status_code = status = code = reason = property(leave)


class Everything(Exception):
    def __getattribute__(self, name):
        raise SystemExit(7)


class ItsClass(Exception):
    __class__ = property(leave)


class Notes(Exception):
    __notes__ = property(leave)


class Causes(Exception):
    __cause__ = __context__ = __traceback__ = __dict__ = property(leave)


class Stop(StopIteration):
    __str__ = leave


class Exit(GeneratorExit):
    __str__ = leave


class Words(str):
    """A text whose own code raises."""

    __slots__ = ()
    __format__ = __getitem__ = __len__ = __str__ = __add__ = __iter__ = leave


class Says(Exception):
    def __str__(self):
        return Words("no")


class OwnText(ToolError):
    message = property(leave, lambda error, text: None)


class OwnKind(ToolError):
    """An error with an unknown kind, which is set after its creation."""

    def __init__(self, kind):
        super().__init__("execution", "no")
        self.kind = kind


class Truth(Exception):
    """An exception that raises when it is used as a condition."""

    __bool__ = __len__ = leave


class Members(ExceptionGroup):
    exceptions = property(leave)


# Referenced by name, because pytest cannot show the values themselves.
EXCEPTIONS = {
    "SystemExit": lambda: SystemExit(3),
    "GeneratorExit": GeneratorExit,
    "GeneratorExit without text": Exit,
    "StopIteration": lambda: StopIteration("no"),
    "StopIteration without text": Stop,
    "StopAsyncIteration": lambda: StopAsyncIteration("no"),
    "BaseException": lambda: BaseException("no"),
    "text": Text,
    "attributes": Attributes,
    "everything": Everything,
    "class": ItsClass,
    "notes": Notes,
    "causes": Causes,
    "text of a custom class": Says,
    "list as kind": lambda: OwnKind([]),
    "unknown kind": lambda: OwnKind("fatal"),
    "message and hint": lambda: ToolError("execution", Words("no"), hint=Words("no")),
    "message": lambda: OwnText("execution", "no"),
    "group": lambda: ExceptionGroup("no", [Text(), Attributes()]),
    "base group": lambda: BaseExceptionGroup("no", [Text(), GeneratorExit()]),
    "group of one": lambda: ExceptionGroup("no", [Text()]),
    "truth": Truth,
    "members of a group": lambda: Members("no", [ValueError("no")]),
}


def tool(raised, plain, **settings):
    def run(arguments):
        raise raised

    async def run_async(arguments):
        raise raised

    return Tool("f", "", None, run if plain else run_async, **settings)


@for_each("plain", [True, False])
@for_each("name", EXCEPTIONS)
async def test_every_exception_of_a_tool_becomes_a_result(name, plain):
    registry = ToolRegistry(tool(EXCEPTIONS[name](), plain))
    first, second = await execute_tool_calls(registry, [CALL, CALL])
    assert first.output == second.output
    assert (first.status in ("unknown_effect", "error"), first.error.kind) == (True, "execution")
    with pytest.raises(ToolError):
        await registry.execute("f", {})


@for_each("plain", [True, False])
async def test_readable_parts_of_a_broken_exception_are_used(plain):
    class Away(ConnectionError):
        __str__ = leave

    registry = ToolRegistry(tool(Away(), plain, effect="read", retry=0))
    result = await execute_tool_call(registry, CALL)
    assert (result.error.kind, result.error.message) == ("network", "Away")


async def test_an_exception_in_needs_approval_means_that_approval_is_needed():
    recorder = Recorder()
    registry = ToolRegistry(dataclasses.replace(recorder.tool, needs_approval=leave))
    result = await execute_tool_call(registry, CALL)
    assert (result.status, recorder.seen) == ("rejected", [])


@for_each("plain", [True, False])
async def test_a_keyboard_interrupt_of_a_tool_propagates(plain):
    registry = ToolRegistry(tool(KeyboardInterrupt(), plain))
    for awaitable in (execute_tool_call(registry, CALL), execute_tool_calls(registry, [CALL])):
        with pytest.raises(KeyboardInterrupt):
            await awaitable


@for_each("dialect", [PromptDialect, NativeDialect])
@for_each("name", ["GeneratorExit", "text", "everything"])
async def test_a_run_continues_after_an_exception_whose_own_code_raises(
    new_conversation, dialect, name
):
    replies = [call(), DONE]
    if dialect is NativeDialect:
        replies = [Message.assistant("", [CALL]), "done"]
    conversation = new_conversation(replies, tool(EXCEPTIONS[name](), plain=False))
    result = await conversation.ask(dialect=dialect())
    assert (result.reply, result.history[0].result.status) == ("done", "unknown_effect")
    assert await conversation.problems() == []


@for_each("wrong", [{"kind": "fatal"}, {"kind": []}, {"max_retries": -1}, {"retry_delay": -1}])
def test_a_tool_error_with_an_invalid_setting_raises_a_value_error(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ToolError(**{"kind": "execution", "message": "no", **wrong})


# ---- values


class Model(pydantic.BaseModel):
    x: int = 1

    @pydantic.model_serializer
    def leave(self):
        raise SystemExit(7)


@dataclasses.dataclass
class Fields:
    x: object


class Opaque:
    __str__ = __repr__ = __iter__ = __getattribute__ = model_dump = leave


class ValueOfItsClass:
    __class__ = property(leave)


class Endless:
    __dict__ = property(leave)
    __iter__ = __getitem__ = keys = leave


class Keys(dict):
    __iter__ = items = values = keys = __len__ = leave


class Items(list):
    __iter__ = __getitem__ = __len__ = leave


class Number(int):
    __str__ = __repr__ = __int__ = __index__ = leave


class Output(ToolOutput):
    __slots__ = ()
    output = property(leave)


OPAQUE = {
    "model": Model,
    "dataclass": lambda: Fields(Opaque()),
    "object": Opaque,
    "class": ValueOfItsClass,
    "mapping": Endless,
    "inside": lambda: {"x": [Opaque()]},
    "beside a part": lambda: [TextPart("x"), Opaque()],
    "part": lambda: TextPart(Opaque()),
    "output": lambda: ToolOutput(Opaque()),
    "output of a class": lambda: ToolOutput(ValueOfItsClass()),
}
READABLE = {
    "keys": lambda: Keys(x=1),
    "items": lambda: Items([1]),
    "number": lambda: Number(1),
    "text": lambda: Words("x"),
    "text in a mapping": lambda: {Words("x"): Words("y")},
    "text of a part": lambda: TextPart(Words("x")),
    "details": lambda: ToolOutput("x", Opaque()),
}


@for_each("plain", [True, False])
@for_each("name", [*OPAQUE, *READABLE])
async def test_every_value_of_a_tool_becomes_a_result(name, plain):
    value = (OPAQUE | READABLE)[name]()

    async def run(arguments):
        return value

    registry = ToolRegistry(
        Tool("f", "", None, (lambda arguments: value) if plain else run, effect="read")
    )
    first, second = await execute_tool_calls(registry, [CALL, CALL])
    assert first.status == second.status
    if name in OPAQUE:
        assert (first.status, first.error.kind) == ("error", "execution")


class Lazy(ToolOutput):
    """An output that raises when it is read."""

    output = property(leave, lambda output, value: None)


@for_each("plain", [True, False])
async def test_an_output_that_raises_when_it_is_read_gives_an_error_result(plain):
    async def run_async(arguments):
        return Lazy("x")

    registry = ToolRegistry(
        Tool("f", "", None, (lambda arguments: Lazy("x")) if plain else run_async, effect="read")
    )
    [result] = await execute_tool_calls(registry, [CALL])
    assert (result.status, result.error.kind) == ("error", "execution")
