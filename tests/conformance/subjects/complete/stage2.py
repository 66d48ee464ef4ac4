"""The complete stage 2 as operations."""

from typing import Any

from stage2_output import CompiledSchema, OutputController, find_json, without_thinking
from stage2_output import feedback as feedback_on
from stage2_output.request import Reply, is_truncated
from stage2_output.result import Issue, ParseResult
from tests.conformance.surroundings import Failure

controller = OutputController()


def read(text: str, schema: Any = None, finish_reason: str = "stop") -> dict[str, Any]:
    """Find, parse and validate the JSON of a text."""
    truncated = is_truncated(Reply(text, finish_reason))
    return result_fields(controller.parse_and_validate(text, schema, truncated=truncated))


def unwrap(text: str) -> str:
    """Return the JSON of a reply that is nothing but JSON; other replies remain as they are."""
    text = without_thinking(text).strip()
    values, _ = find_json(text)
    if len(values) == 1 and values[0].source == "fenced":
        before, behind = text[: values[0].start], text[values[0].end :]
        if before.startswith("```") and behind.strip() == "```":
            return text[values[0].start : values[0].end]
    return text


def validate(value: Any, schema: Any) -> dict[str, Any]:
    """Compare a value with a schema."""
    return {"issues": [sentence(issue) for issue in CompiledSchema(schema).issues(value)]}


def feedback(text: str, schema: Any) -> dict[str, Any]:
    """Return the message to the model about an invalid text."""
    return {"text": feedback_on(controller.parse_and_validate(text, schema))}


async def request(ask: Any, messages: Any, schema: Any, attempts: int = 3) -> dict[str, Any]:
    """Ask until the reply is valid."""

    async def chat(messages: Any) -> Reply:
        reply = await ask(messages)
        return Reply(reply["message"]["content"] or "", reply["finish_reason"])

    result = await controller.request(chat, messages, schema, max_attempts=attempts)
    if not result.success:
        raise Failure("invalid", "; ".join(map(sentence, result.errors)))
    return {"value": result.data, "messages": messages}


def result_fields(result: ParseResult) -> dict[str, Any]:
    """The fields of a result that the cases check."""
    repairs = result.extraction.repairs if result.extraction else ()
    return {
        "value": result.data,
        "repairs": [repair.name for repair in repairs],
        "issues": [sentence(issue) for issue in result.errors],
    }


def sentence(issue: Issue) -> str:
    """One issue as a sentence."""
    return " ".join(part for part in (issue.path, issue.message, issue.hint) if part)


OPERATIONS = {
    "read": read,
    "unwrap": unwrap,
    "validate": validate,
    "feedback": feedback,
    "request": request,
}
