"""Random tool loops with a real llama.cpp server and random weights, constrained by a JSON Schema.

The replies are meaningless but well formed: tools, arguments and texts, over a real connection. The
server is described in `test_llama.py`. RANDOM_RUNS=300 increases the number of runs.
"""

import asyncio
import os
import re
from collections import Counter
from random import Random
from typing import get_args

import pytest

from stage0_gateway import Gateway
from stage1_context import ContextEngine, KeepSystemAndRecent
from stage2_output import OutputController
from stage3_tools import LoopStatus, PromptDialect, ToolLoopDeps, ToolLoopOptions, run_tool_loop
from tests.real import test_llama
from tests.stage3_tools.random_model import BARE
from tests.stage3_tools.random_tools import RandomTools

base_url = test_llama.base_url  # the fixture that starts the server, or skips
pytestmark = pytest.mark.llama
RUNS = int(os.environ.get("RANDOM_RUNS") or 100)
MOST_TOKENS = 300
READER = OutputController()
DIALECTS = [PromptDialect(READER), PromptDialect(READER, multiple=True)]
ANSWER = {
    "type": "object",
    "properties": {
        "tool": {"type": "null"},
        "reply": {"type": "string", "minLength": 1, "maxLength": 20},
    },
    "required": ["tool", "reply"],
    "additionalProperties": False,
}


def bounded(schema, text):
    """Limit the lengths in a schema; this server ignores the limits of integers.

    Args:
        schema: The schema of a tool's arguments.
        text: The schema of texts.
    """
    match schema:
        case {"enum": _}:
            return schema
        case {"type": "object", "properties": known}:
            fields = {name: bounded(each, text) for name, each in known.items()}
            return {
                **schema,
                "properties": fields,
                "required": [*fields],
                "additionalProperties": False,
            }
        case {"type": "array", "items": items}:
            return {**schema, "items": bounded(items, text), "maxItems": 3}
        case {"type": "string" | ["string", "null"]}:
            return text
        case {"type": "integer" | "number"}:
            return {"type": "integer", "minimum": -5, "maximum": 9}
    return {"type": "boolean"}


class ConstrainedModel:
    """A model whose grammar allows only decisions.

    Attributes:
        may_run: Whether tools may run on the latest reply.
    """

    def __init__(self, gateway, registry, seed, *, endless, several):
        self.gateway, self.registry, self.rng = gateway, registry, Random(seed)
        self.endless, self.several = endless, several
        self.requests, self.may_run, self.complete = 0, False, 0

    async def chat(self, messages, **settings):
        self.requests += 1
        without_tools = BARE in messages[0].text
        seen = re.findall(r"\$VAR_REF\{\{var_\d+\}\}", " ".join(each.text for each in messages))
        form = {"type": "json_object", "schema": ANSWER if without_tools else self.decision(seen)}
        options = {"response_format": form, "seed": self.rng.randrange(2**31)}
        reply = await self.gateway.chat(messages, provider_options=options, **settings)
        self.may_run = not without_tools and reply.finish_reason != "length"
        self.complete += reply.finish_reason != "length"
        return reply

    def decision(self, references):
        """Return a schema of the allowed replies: a call of one of some tools, several calls, an answer."""
        text = {"type": "string", "maxLength": 12}
        if references and self.rng.random() < 0.5:
            text = {"enum": sorted({*references})}
        calls = [self.call(each, text) for each in self.rng.sample(self.registry.list(), 3)]
        several = {"type": "array", "items": {"anyOf": calls}, "minItems": 2, "maxItems": 3}
        form = [*calls, *([several] if self.several else []), *([] if self.endless else [ANSWER])]
        return {"anyOf": form}

    def call(self, tool, text):
        """Return a schema of the calls of a tool."""
        arguments = bounded({"type": "object", "properties": {}, **(tool.parameters or {})}, text)
        name = {"enum": [self.rng.choice([tool.name] * 9 + ["nope"])]}
        fields = {"tool": name, "arguments": arguments}
        return {
            "type": "object",
            "properties": fields,
            "required": [*fields],
            "additionalProperties": False,
        }


async def run_once(gateway, tools, seed):
    """Ask one question in a session of its own; return its status and counts."""
    rng = Random(seed)
    tools.begin(seed, only_text=True)
    several, endless = rng.random() < 0.5, rng.random() < 0.5
    engine = ContextEngine(window=rng.choice([None, KeepSystemAndRecent(max_messages=20)]))
    await engine.create_session("s")
    model = ConstrainedModel(gateway, tools.registry, seed, endless=endless, several=several)
    tools.model = model
    deps = ToolLoopDeps(model.chat, engine, READER, tools.registry)
    tools.nested = lambda: run_tool_loop(deps, "s", "And?")
    options = ToolLoopOptions(
        dialect=DIALECTS[several],
        max_tool_rounds=rng.randint(1, 4),
        max_tokens=MOST_TOKENS,
        approve=rng.choice([None, lambda call: rng.random() < 0.8]),
        variables_over=200,
    )
    result = await run_tool_loop(deps, "s", "Go.", options)
    while result.status == "awaiting_approval":
        approving = ToolLoopOptions(
            dialect=DIALECTS[several],
            max_tool_rounds=1,
            max_tokens=MOST_TOKENS,
            approve=lambda call: True,
        )
        result = await run_tool_loop(deps, "s", None, approving, resume=True)
    assert result.status in get_args(LoopStatus)
    assert (await engine.history("s")).check_history() == []
    assert tools.wrong == []
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return result.status, model, sum(map(len, tools.attempts.values()))


async def test_each_run_of_a_random_server_ends_with_a_valid_history(base_url, say):
    tools, seen = RandomTools(), Counter()
    async with Gateway("openai:tiny", base_url=base_url, max_retries=0) as gateway:
        for seed in range(RUNS):
            try:
                async with asyncio.timeout(60):
                    status, model, attempts = await run_once(gateway, tools, seed)
            except BaseException as error:
                raise AssertionError(f"run {seed} of {RUNS}: {error!r:.500}") from error
            seen.update(
                {
                    status: 1,
                    "requests": model.requests,
                    "complete": model.complete,
                    "attempts of tools": attempts,
                }
            )
    say(f"{RUNS} runs: {dict(seen)}")
    assert seen["attempts of tools"] > RUNS / 2
