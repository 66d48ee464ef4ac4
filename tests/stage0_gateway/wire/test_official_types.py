"""Our requests conform to the request types of the providers' own libraries.

These are requests with the settings of our own, and every recorded request with tools, which is
decoded and encoded again.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stage0_gateway import (
    ChatRequest,
)
from tests.stage0_gateway.requests import CONVERSATION, SPEC
from tests.stage0_gateway.server.formats import FORMAT_BY_NAME, OPENAI_RESPONSES

pytestmark = pytest.mark.long

OBJECT = {"type": "object"}


def official_type(provider: str) -> Any:
    """Return the type of a request; Anthropic's has the beta tools, which many recordings use."""
    match provider:
        case "openai":
            from openai.types.chat import completion_create_params as params

            return params.CompletionCreateParamsNonStreaming
        case "openai-responses":
            from openai.types.responses import response_create_params as params

            return params.ResponseCreateParamsNonStreaming
    from anthropic.types.beta import message_create_params as params

    return params.MessageCreateParamsNonStreaming


def walk(value: Any) -> None:
    """Read the lazily validated lists in the SDKs' types, so that their errors are raised."""
    if isinstance(value, dict):
        for each in value.values():
            walk(each)
    elif not isinstance(value, str | bytes) and hasattr(value, "__iter__"):
        for each in value:
            walk(each)


def check_gemini(body: dict[str, Any]) -> None:
    from google.genai import types

    for content in body["contents"]:
        types.Content.model_validate(content)
    for tool in body.get("tools", ()):
        types.Tool.model_validate(tool)
    for name, kind in (
        ("systemInstruction", types.Content),
        ("toolConfig", types.ToolConfig),
        ("generationConfig", types.GenerationConfig),
    ):
        if name in body:
            kind.model_validate(body[name])


def requests_with_tools(rows: Iterator[dict], provider: str) -> Iterator[tuple[str, str, dict]]:
    for row in rows:
        body = row["request"]["body"]
        body = json.loads(body) if isinstance(body, str) and body[:1] == "{" else body
        if row["provider"] == provider and isinstance(body, dict) and body.get("tools"):
            yield row["id"], row["request"]["path"], body


def checker_of(provider: str) -> Callable[[dict[str, Any]], None]:
    """Return a function that raises a `ValidationError` if the official types reject a body."""
    from pydantic import TypeAdapter

    if provider == "gemini":
        return check_gemini
    adapter = TypeAdapter(official_type(provider))
    return lambda body: walk(adapter.validate_python(body))


def reason_to_reject(check: Callable[[dict[str, Any]], None], body: dict[str, Any]) -> str | None:
    """Return the reason why the official types reject a body, or None."""
    from pydantic import ValidationError

    try:
        check(body)
    except ValidationError as error:
        return str(error)[:600]
    return None


@pytest.mark.parametrize(
    ("provider", "model", "settings"),
    [
        ("openai", "m", {"reasoning": "low"}),
        ("openai", "m", {"tools": (SPEC,), "tool_choice": "f", "response_schema": OBJECT}),
        ("openai-responses", "m", {"reasoning": "low"}),
        ("anthropic", "m", {"tools": (SPEC,), "cache_prompt": True}),
        ("anthropic", "claude-opus-5", {"reasoning": "low"}),
        ("anthropic", "claude-haiku-4-5", {"reasoning": "low"}),
        ("gemini", "gemini-3-pro", {"reasoning": "low"}),
        ("gemini", "gemini-3-pro", {"reasoning": 2000}),
    ],
)
def test_a_request_conforms_to_the_official_types(provider, model, settings):
    request = ChatRequest(model, CONVERSATION, **settings)
    checker_of(provider)(FORMAT_BY_NAME[provider].wire.encode(request))


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_recorded_requests_with_tools_conform_to_the_official_types(recorded, provider, say):
    server, wire = FORMAT_BY_NAME[provider]
    check, checked, wrong = checker_of(provider), 0, {}
    for name, path, body in requests_with_tools(recorded("wire.jsonl")[0], provider):
        why = reason_to_reject(check, wire.encode(server.decode_request(body, path)))
        # Some recorded requests are rejected too: fields of another vendor, newer fields, a removed
        # signature.
        if why and not reason_to_reject(check, body):
            wrong[name] = why
        checked += not why
    say(f"wire.jsonl: {checked} requests with tools checked against the official {provider} types")
    assert wrong == {}
    assert checked > 100


def test_recorded_requests_in_the_responses_format_conform_to_the_official_types(recorded, say):
    server, wire = OPENAI_RESPONSES
    check, wrong = checker_of("openai-responses"), {}
    rows = recorded("responses.jsonl")[0]
    for row in rows:
        body = row["request"]
        once = wire.encode(server.decode_request(body))
        again = wire.encode(server.decode_request(once))
        assert again == once, row["id"]
        why = reason_to_reject(check, once)
        if why and not reason_to_reject(check, body):
            wrong[row["id"]] = why
    assert wrong == {}
    assert len(rows) > 100
    say(f"responses.jsonl: {len(rows)} requests checked against the official types")


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic", "gemini"])
def test_an_invalid_request_is_detected(provider):
    from pydantic import ValidationError

    body = {"model": "m", "max_tokens": 1, FORMAT_BY_NAME[provider].wire.MESSAGES: [{"role": 5}]}
    with pytest.raises(ValidationError):
        checker_of(provider)(body)
