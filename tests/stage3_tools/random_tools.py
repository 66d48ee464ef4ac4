"""Tools with random behavior: slow, failing, added while others run, waiting for approval.

Their behavior is drawn from a seed and the call. `RandomTools.wrong` lists calls that should not have
run.
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


class WithoutText(Exception):
    def __str__(self):
        raise ValueError("no text")


class RandomTools:
    """The tools, and a list of violations since `begin()`: `wrong`.

    Attributes:
        registry: The tools, which also add and remove tools.
        attempts: The attempts of each call, by its id.
        model: The model that calls the tools.
        nested: A forbidden nested run, awaited by a tool; it must raise a RuntimeError.
    """

    def __init__(self):
        # Created once, because compiling their schemas takes longer than most runs.
        self.tools = [*self._tools(), typed]

    def begin(self, seed, on_step=lambda: None, only_text=False):
        """Reset the tools.

        Args:
            seed: Determines, together with the call, the behavior of the tools.
            on_step: Called at every step.
            only_text: Whether tools return no images and no unpaired surrogates, which some
                servers reject.
        """
        self.seed, self.on_step, self.only_text = seed, on_step, only_text
        self.attempts, self.wrong, self.running = defaultdict(list), [], {}
        self.model, self.nested, self.added = None, None, 0
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
        yield self.made("change_tools", None, self.change_tools)
        yield self.made("nested", None, self.run_nested)
        yield self.made("hang", None, self.hang, effect="read", timeout=0.001, retry=1)
        yield self.made(
            "parse", SMALL, self.look, parse=lambda given: {**given, "n": 10 // given["n"]}
        )
        yield Tool("plain", "in a thread", SMALL, self.plain, effect="read")

    def made(self, name, schema, body, **rest):
        """Return a tool that checks how it is run."""
        fits = jsonschema.Draft202012Validator(schema or {}).is_valid

        async def execute(arguments, context: ToolContext):
            self.on_step()
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
        attempts = self.attempts[context.call_id]
        attempts.append(context.attempt)
        in_order = attempts == [*range(1, len(attempts) + 1)]
        if not in_order or (made.effect == "write" and len(attempts) > 1):
            self.wrong.append(
                f"the {made.effect} {made.name} was run as the attempts {attempts} of"
                f" {context.call_id}"
            )
        if not self.model.may_run:
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
            self.on_step()
            await asyncio.sleep(0)
        return "aborted" if context.aborted else context.idempotency_key

    async def flaky(self, arguments, context, rng):
        if rng.random() < 0.5:
            raise ConnectionError("away")
        return arguments

    async def fail(self, arguments, context, rng):
        await asyncio.sleep(0)
        named = ToolError(
            rng.choice(get_args(ToolErrorKind)),
            "no",
            retryable=rng.random() < 0.5,
            retry_delay=rng.choice([None, 0, 99]),
            hint="try look",
        )
        errors = [
            *[
                ValueError("no"),
                KeyError(),
                TimeoutError(),
                PermissionError(13, "no"),
                SystemExit(3),
            ],
            *[asyncio.CancelledError(), BaseException("base"), WithoutText(), StopAsyncIteration()],
            *[RecursionError(), StopIteration(3), OSError("é" * 3000), named, named],
            ExceptionGroup("two", [OSError(), named]),
        ]
        raise rng.choice(errors)

    async def big(self, arguments, context, rng):
        text = rng.choice("aé🐒") * rng.choice([300, 5000, 20_000])
        parts = [[TextPart(text), ImagePart("aGk=")]]
        return rng.choice(
            [text, [text] * 3, {"deep": [{"text": text}]}, *([] if self.only_text else parts)]
        )

    async def show(self, arguments, context, rng):
        values = [None, "", {1, 2}, b"\xff", object(), iter([1]), float("nan"), [[]]]
        values.append(ToolOutput(ToolOutput(1)))
        if not self.only_text:
            values += ["\ud800", [TextPart("a"), ImagePart("aGk="), JsonPart({"n": 1})]]
            values += [JsonPart(object()), [TextPart(5)], ImagePart()]
        return rng.choice(values)

    async def change_tools(self, arguments, context, rng):
        """Add a tool, remove one, or replace one with another of the same name."""
        self.added += 1
        names = self.registry.names
        name = rng.choice([each for each in names if each not in ("change_tools", "look")])
        if rng.random() < 0.6:
            return self.registry.register(self.made(f"added{self.added}", SMALL, self.slow)).name
        old = self.registry.unregister(name)
        if rng.random() < 0.7:
            self.registry.register(self.made(name, old.parameters, self.slow, effect=old.effect))
        return name

    async def run_nested(self, arguments, context, rng):
        try:
            await self.nested()
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
