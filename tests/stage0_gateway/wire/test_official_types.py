"""Our requests conform to the providers' own libraries.

Every recorded request with tools is decoded, encoded again by our formats, and validated with the
request types of the official SDKs.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from stage0_gateway.server import anthropic as serve_anthropic
from stage0_gateway.server import gemini as serve_gemini
from stage0_gateway.server import openai as serve_openai
from stage0_gateway.server import openai_responses as serve_openai_responses
from stage0_gateway.wire import anthropic, gemini, openai, openai_responses

pytestmark = pytest.mark.long

FORMATS = {
    "openai": (serve_openai, openai),
    "anthropic": (serve_anthropic, anthropic),
    "gemini": (serve_gemini, gemini),
    "openai-responses": (serve_openai_responses, openai_responses),
}


def official_openai() -> TypeAdapter:
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

    return TypeAdapter(CompletionCreateParamsNonStreaming)


def official_openai_responses() -> TypeAdapter:
    from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

    return TypeAdapter(ResponseCreateParamsNonStreaming)


def official_anthropic() -> TypeAdapter:
    """Return the types with the beta tools, which a third of the recordings use."""
    from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming

    return TypeAdapter(MessageCreateParamsNonStreaming)


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


def is_refused(adapter: TypeAdapter | None, body: dict[str, Any]) -> str | None:
    """Return the reason why the official types reject a body, or None."""
    try:
        walk(adapter.validate_python(body)) if adapter else check_gemini(body)
    except ValidationError as error:
        return str(error)[:600]
    return None


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_recorded_requests_with_tools_conform_to_the_official_types(recorded, provider, say):
    served, wire = FORMATS[provider]
    checker = {"openai": official_openai, "anthropic": official_anthropic}.get(provider)
    adapter = checker() if checker else None
    checked, wrong = 0, {}
    for name, path, body in requests_with_tools(recorded("wire.jsonl")[0], provider):
        why = is_refused(adapter, wire.encode(served.decode_request(body, path)))
        # Some recorded requests are rejected too: fields of another vendor, newer fields, a removed
        # signature.
        if why and not is_refused(adapter, body):
            wrong[name] = why
        checked += not why
    say(f"wire.jsonl: {checked} requests with tools checked against the official {provider} types")
    assert wrong == {}
    assert checked > 100


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_a_conversation_is_unchanged_after_a_second_round_trip(recorded, provider):
    served, wire = FORMATS[provider]
    for name, path, body in requests_with_tools(recorded("wire.jsonl")[0], provider):
        once = wire.encode(served.decode_request(body, path))
        assert wire.encode(served.decode_request(once, path)) == once, name


def test_recorded_requests_in_the_responses_format_conform_to_the_official_types(recorded, say):
    adapter, wrong = official_openai_responses(), {}
    rows = recorded("responses.jsonl")[0]
    for row in rows:
        body = row["request"]
        once = openai_responses.encode(serve_openai_responses.decode_request(body))
        again = openai_responses.encode(serve_openai_responses.decode_request(once))
        assert again == once, row["id"]
        why = is_refused(adapter, once)
        if why and not is_refused(adapter, body):
            wrong[row["id"]] = why
    assert wrong == {}
    assert len(rows) > 100
    say(f"responses.jsonl: {len(rows)} requests checked against the official types")


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_an_invalid_request_is_detected(provider):
    adapter = {"openai": official_openai, "anthropic": official_anthropic}[provider]()
    with pytest.raises(ValidationError):
        walk(
            adapter.validate_python({"model": "m", "max_tokens": 1, "messages": [{"role": "who"}]})
        )
