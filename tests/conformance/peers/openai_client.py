"""The client of the official `openai` SDK: whole replies and streams of the chat format."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from openai import AsyncOpenAI

from tests.conformance.case import Case
from tests.conformance.peers.claims import OWN_REPLIES
from tests.conformance.peers.errors import error_kind
from tests.conformance.surroundings import Failure

OWN_PROVIDERS = {"OpenAI", "Azure", "Azure OpenAI"}
COMPLETION = {"id": "chatcmpl-1", "created": 0, "model": "m"}
MISSING = {
    '{"choices"': '{"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices"',
    '[{"delta"': '[{"index": 0, "delta"',
}
"""Beginnings of chunks, and the same with the fields that the cases leave out."""


def outside(case: Case) -> str:
    """The demand that is outside of the claims: other formats and providers."""
    if case.input.get("format", "openai") != "openai":
        return "the format of another provider"
    if "wait" in case.input:
        return "a wait that the program sets"
    is_own_case = case.origin.get("library") == "llm-stages"  # not seen at the provider's server
    if is_own_case or case.origin.get("provider", "OpenAI") not in OWN_PROVIDERS:
        return OWN_REPLIES
    return ""


def prepared(case: Case) -> Case:
    """Return a case with the fields that the provider always sends."""
    server = [completed(answer) for answer in case.input["server"]]
    return dataclasses.replace(case, input={**case.input, "server": server})


def completed(answer: dict[str, Any]) -> dict[str, Any]:
    """Add the missing fields to an answer of a server."""
    answer = dict(answer)
    if isinstance(body := answer.get("json"), dict) and "choices" in body:
        answer["json"] = {**COMPLETION, "object": "chat.completion", **body}
    if "events" in answer:
        answer["events"] = [completed_chunk(event) for event in answer["events"]]
    if "chunks" in answer:
        answer["chunks"] = [completed_part(part) for part in answer["chunks"]]
    return answer


def completed_part(part: Any) -> Any:
    """Add the missing fields to a part of a stream, which is a text or a list of bytes."""
    if not isinstance(part, str):
        text = bytes(part).decode("latin-1")  # keeps every byte, also of a character that is split
        return list(completed_part(text).encode("latin-1"))
    for missing, fields in MISSING.items():
        part = part.replace(missing, fields)
    return part


def completed_chunk(chunk: Any) -> Any:
    """Add the missing fields to a chunk of a stream."""
    if not isinstance(chunk, dict) or "choices" not in chunk:
        return chunk
    choices = [completed_choice(choice) for choice in chunk["choices"] or []]
    return {**COMPLETION, "object": "chat.completion.chunk", **chunk, "choices": choices}


def completed_choice(choice: dict[str, Any]) -> dict[str, Any]:
    """Add the type to the calls of a choice: the first piece of a call has an id."""
    delta = dict(choice.get("delta") or {})
    if calls := delta.get("tool_calls"):
        delta["tool_calls"] = [
            {"type": "function", **call} if call.get("id") else call for call in calls
        ]
    return {**choice, "delta": delta}


async def chat(url: str, messages: Any, tools: Any = (), format: str = "openai") -> Any:
    """Send messages, and return the reply."""
    with errors_of_client():
        completion = await client_of(url).chat.completions.create(**request_of(messages, tools))
    return reply_fields(completion)


async def stream(url: str, messages: Any, tools: Any = (), format: str = "openai") -> Any:
    """Send messages, and return the pieces of text and the whole reply."""
    texts = []
    with errors_of_client():
        async with client_of(url).chat.completions.stream(**request_of(messages, tools)) as events:
            async for event in events:
                if event.type == "content.delta" and event.delta:  # an empty piece is not seen
                    texts.append(event.delta)
            completion = await events.get_final_completion()
    return {"texts": texts, **reply_fields(completion)}


def client_of(url: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=url, api_key="none")


def request_of(messages: Any, tools: Any) -> dict[str, Any]:
    request = {"model": "m", "messages": messages}
    if tools:
        request["tools"] = [{"type": "function", "function": tool} for tool in tools]
    return request


def reply_fields(completion: Any) -> dict[str, Any]:
    """The outcome for a completion. The SDK leaves missing text, and missing choices, as None."""
    if not completion.choices:
        return {"message": None, "finish_reason": None}
    choice = completion.choices[0]
    message = {"role": "assistant", "content": choice.message.content or ""}
    if calls := choice.message.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in calls
        ]
    fields = {"message": message, "finish_reason": choice.finish_reason}
    if choice.message.refusal:
        fields |= {"refusal": choice.message.refusal, "finish_reason": "refusal"}
    if usage := completion.usage:
        fields["usage"] = {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
        }
    return fields


@contextlib.contextmanager
def errors_of_client() -> Iterator[None]:
    """Convert the errors of the SDK; their text and the body of the answer are separate."""
    try:
        yield
    except Exception as error:
        kind = error_kind(error) or "permanent"
        raise Failure(kind, f"{error} {getattr(error, 'body', None) or ''}") from error


OPERATIONS = {"chat": chat, "stream": stream}
