"""`llm-stages doctor`: the configuration, the extras, and what the model supports."""

import argparse
import asyncio
import logging
import os
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from llm_stages.cli.terminal import Terminal
from stage0_gateway import (
    Gateway,
    GatewayError,
    Message,
    ToolSpec,
)

EXTRAS = {
    "fast": ("httpx-aiohttp", "jsonschema-rs"),
    "postgres": ("asyncpg",),
    "prices": ("genai-prices",),
    "cli": ("rich",),
}
VARIABLES = (
    "LLM_MODEL",
    "LLM_BASE_URL",
    "LLM_API_KEY",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
)

_CREDENTIALS = re.compile(r"//[^/?#]*@")

_CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_TOOL = ToolSpec("get_weather", "Get the weather in a city.", _CITY)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print what works; return 1 if the model cannot be reached."""
    logging.getLogger("stage0_gateway").addHandler(logging.NullHandler())  # a row says the same
    rows = list(configuration())
    reachable, found = asyncio.run(model_checks(options.model))
    rows += found
    if terminal.as_json:
        terminal.json([dict(zip(("check", "value"), row, strict=True)) for row in rows])
    else:
        terminal.table(("check", "value"), rows)
    return 0 if reachable else 1


def configuration() -> Iterator[tuple[str, str]]:
    """Yield the versions, the extras and the variables; never the value of a key."""
    yield "llm-stages", _version("llm-stages")
    for extra, packages in EXTRAS.items():
        missing = [name for name in packages if _version(name) == "not installed"]
        fix = f"missing; pip install 'llm-stages[{extra}]'"
        yield f"extra [{extra}]", fix if missing else "installed"
    for name in VARIABLES:
        value = os.environ.get(name)
        if value and name.endswith("KEY"):
            value = "set"
        yield name, _CREDENTIALS.sub("//[hidden]@", value) if value else "not set"


async def model_checks(model: str | None) -> tuple[bool, list[tuple[str, str]]]:
    """Return whether the model answers, and what it supports."""
    try:
        gateway = Gateway.from_env(model, max_retries=0)
    except GatewayError as error:
        return False, [("model", str(error))]
    async with gateway:
        rows = [("model", str(gateway.model))]
        if gateway.model.startswith("offline:"):
            rows.append(
                ("answers", "from rules, not from a language model; set LLM_MODEL or a key")
            )
        failure = await _failure(gateway)
        rows.append(("reachable", failure or "yes"))
        if failure is None:
            rows.append(("native tool calls", await _native_calls(gateway)))
            schema = await _failure(gateway, response_schema=_CITY)
            accepted = "yes" if gateway.supports_schema and schema is None else schema
            rows.append(("structured output", accepted or "not offered by this server"))
    return failure is None, rows


async def _failure(gateway: Gateway, **keywords: Any) -> str | None:
    """Return why a request failed; None if it did not."""
    try:
        await gateway.chat([Message.user("Say hello in Paris.")], **keywords)
    except GatewayError as error:
        return f"{type(error).__name__}: {error}"
    return None


async def _native_calls(gateway: Gateway) -> str:
    question = [Message.user("What is the weather in Paris? Use the tool.")]
    try:
        response = await gateway.chat(question, tools=[_TOOL])
    except GatewayError as error:
        return f"{type(error).__name__}: {error}"
    return "yes" if response.tool_calls else "accepted, but the model did not call the tool"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
