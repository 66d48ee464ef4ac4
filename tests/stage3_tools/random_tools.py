"""The tools of the monkey: slow, failing, growing, waiting for approval, and all of them checked.

Their behavior is drawn from a seed and the call. `Zoo.wrong` lists calls that should not have run.
Used by `monkey_world.py`, and by a test in which a real model server replaces the monkey.
"""

import asyncio
from collections import defaultdict
from contextlib import suppress
from random import Random
from typing import Literal, get_args

import jsonschema

from stage0_gateway import ImagePart, JsonPart, TextPart
from stage3_tools import (
    Retry,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolRegistry,
    tool,
)
from stage3_tools.errors import ToolErrorKind

NOTE = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 6000},
        "n": {"type": "integer", "minimum": -5, "maximum": 9},
        "tags": {"type": "array", "items": {"enum": ["red", "blue", None]}, "maxItems": 4},
        "deep": {
            "type": "object",
            "properties": {"list": {"type": "array", "items": {}}, "x": {"type": "number"}},
        },
    },
    "required": ["text"],
    "additionalProperties": False,
}
SMALL = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "text": {"type": ["string", "null"]}},
}


@tool(effect="read")
async def typed(
    city: Literal["Rome", "Oslo"], days: list[int], ratio: float = 0.5
) -> dict[str, float]:
    """Made of a function.

    Args:
        city: Where.
        days: When.
    """
    return {city: ratio * len(days)}


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("no text")


class Zoo:
    """The tools, and a list of violations since `begin()`: `wrong`.

    Attributes:
        registry: The tools, which also add and remove tools.
        tries: The attempts of each call, by its id.
        monkey: The model that calls the tools.
        inward: A forbidden nested run, awaited by a tool; it must raise a RuntimeError.
    """

    def __init__(self):
        # Created once, because compiling their schemas takes longer than most runs.
        self.tools = [*self._tools(), typed]

    def begin(self, seed, tick=lambda: None, plain=False):
        """Reset the tools.

        Args:
            seed: Determines, together with the call, the behavior of the tools.
            tick: Called at every step.
            plain: Whether tools return no images and no unpaired surrogates, which some servers
                reject.
        """
        self.seed, self.tick, self.plain = seed, tick, plain
        self.tries, self.wrong = defaultdict(list), []
        self.running, self.monkey, self.inward, self.grown = {}, None, None, 0
        self.registry = ToolRegistry(*self.tools)

    def _tools(self):
        yield self.made("look", NOTE, self.look, effect="read")
        yield self.made("save", NOTE, self.look)
        yield self.made("put", SMALL, self.flaky, effect="idempotent", retry=2)
        yield self.made("count", SMALL, self.slow, effect="read", exclusive=True)
        yield self.made("pay", NOTE, self.slow, needs_approval=True)
        yield self.made("send", SMALL, self.slow, needs_approval=lambda given: given["n"] > 3)
        yield self.made("fail", SMALL, self.fail, effect="read", retry=Retry(1, 0))
        yield self.made("break", SMALL, self.fail, exclusive=True)
        yield self.made("big", SMALL, self.big, effect="read")
        yield self.made("show", None, self.show, effect="read")
        yield self.made("grow", None, self.grow)
        yield self.made("inward", None, self.go_inward)
        yield self.made("hang", None, self.hang, effect="read", timeout=0.001, retry=1)
        yield self.made(
            "parse", SMALL, self.look, parse=lambda given: {**given, "n": 10 // given["n"]}
        )
        yield Tool("plain", "in a thread", SMALL, self.plain, effect="read")

    def made(self, name, schema, body, **rest):
        """Return a tool that checks how it is run."""
        fits = jsonschema.Draft202012Validator(schema or {}).is_valid

        async def execute(arguments, context: ToolContext):
            self.tick()
            self._check(made, arguments, fits, context)
            self.running[context.call_id] = made
            if len(self.running) > 1 and any(each.exclusive for each in self.running.values()):
                self.wrong.append(f"{name} runs beside {self.running}")
            try:
                return await body(
                    arguments, context, Random(f"{self.seed} {context.call_id} {context.attempt}")
                )
            finally:
                del self.running[context.call_id]

        made = Tool(name, f"does {name}", schema, execute, **rest)
        return made

    def _check(self, made, arguments, fits, context):
        tries = self.tries[context.call_id]
        tries.append(context.attempt)
        if tries != [*range(1, len(tries) + 1)] or (made.effect == "write" and len(tries) > 1):
            self.wrong.append(
                f"the {made.effect} {made.name} was run as the tries {tries} of {context.call_id}"
            )
        if not self.monkey.may_run:
            self.wrong.append(f"{made.name} was run on a reply that cannot be used")
        if not fits(arguments):
            self.wrong.append(f"{made.name} was run with {arguments!r:.200}")

    async def look(self, arguments, context, rng):
        context.progress({"half": context.attempt})
        return rng.choice(
            [arguments, arguments.get("text"), "seen", ToolOutput(arguments, details=context)]
        )

    async def slow(self, arguments, context, rng):
        for _ in range(rng.randint(1, 5)):
            self.tick()
            await asyncio.sleep(0)
        return "aborted" if context.aborted else context.idempotency_key

    async def flaky(self, arguments, context, rng):
        if rng.random() < 0.5:
            raise ConnectionError("away")
        return arguments

    async def fail(self, arguments, context, rng):
        await asyncio.sleep(0)
        kind, again = rng.choice(get_args(ToolErrorKind)), rng.random() < 0.5
        named = ToolError(
            kind, "no", retryable=again, retry_delay=rng.choice([None, 0, 99]), hint="try look"
        )
        errors = [
            ValueError("no"),
            KeyError(),
            TimeoutError(),
            PermissionError(13, "no"),
            SystemExit(3),
            named,
        ]
        errors += [
            asyncio.CancelledError(),
            ExceptionGroup("two", [OSError(), named]),
            BaseException("base"),
        ]
        errors += [
            Unspeakable(),
            StopAsyncIteration(),
            RecursionError(),
            StopIteration(3),
            OSError("é" * 3000),
        ]
        raise rng.choice([*errors, named])

    async def big(self, arguments, context, rng):
        text = rng.choice("aé🐒") * rng.choice([300, 5000, 20_000])
        parts = [[TextPart(text), ImagePart("aGk=")]]
        return rng.choice(
            [text, [text] * 3, {"deep": [{"text": text}]}, *([] if self.plain else parts)]
        )

    async def show(self, arguments, context, rng):
        odd = [
            None,
            "",
            {1, 2},
            b"\xff",
            object(),
            iter([1]),
            float("nan"),
            [[]],
            ToolOutput(ToolOutput(1)),
        ]
        if self.plain:
            return rng.choice(odd)
        odd += [
            "\ud800",
            [TextPart("a"), ImagePart("aGk="), JsonPart({"n": 1})],
            JsonPart(object()),
            [TextPart(5)],
            ImagePart(),
        ]
        return rng.choice(odd)

    async def grow(self, arguments, context, rng):
        """Add a tool, remove one, or replace one with another of the same name."""
        self.grown += 1
        name = rng.choice([each for each in self.registry.names if each not in ("grow", "look")])
        if rng.random() < 0.6:
            return self.registry.register(self.made(f"grown{self.grown}", SMALL, self.slow)).name
        old = self.registry.unregister(name)
        if rng.random() < 0.7:
            self.registry.register(self.made(name, old.parameters, self.slow, effect=old.effect))
        return name

    async def go_inward(self, arguments, context, rng):
        try:
            await self.inward()
        except RuntimeError as error:
            return str(error)
        self.wrong.append("a tool could use the run that it is a part of")
        return ""

    async def hang(self, arguments, context, rng):
        await asyncio.Event().wait()

    def plain(self, arguments):
        with suppress(KeyError):
            if arguments["n"] < 0:
                raise ValueError("no")
        return arguments
