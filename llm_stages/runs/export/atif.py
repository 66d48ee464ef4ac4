"""A run as an ATIF trajectory: the Agent Trajectory Interchange Format, version 1.7.

The messages of the first request are steps of the system and the user. Each later reply is a step
of the agent, with its calls and their results. A feedback is a step of the user.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from llm_stages.runs.values import Run, RunCall, RunReply, RunTurn
from stage0_gateway import Usage
from stage3_tools import json_value

VERSION = "ATIF-v1.7"

_SOURCES = {"system": "system", "user": "user", "assistant": "agent", "tool": "user"}
"""The source of a step for the role of a message."""


def to_atif(run: Run) -> dict[str, Any]:
    """Return a run as an ATIF trajectory."""
    steps = [*_first_steps(run), *(step for turn in run.turns for step in _turn_steps(run, turn))]
    trajectory: dict[str, Any] = {
        "schema_version": VERSION,
        "session_id": run.session_id or None,
        "trajectory_id": run.id,
        "agent": _agent(run),
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": _final_metrics(run, len(steps)),
        "extra": {"status": run.status, "reason": run.end.reason if run.end else None},
    }
    if run.parent is not None:
        trajectory["notes"] = f"Forked from {run.parent.file} at turn {run.parent.turn}."
    exported: dict[str, Any] = without_none(trajectory)
    return exported


def without_none(value: Any) -> Any:
    """Remove fields that are None, at every level except inside of arguments and results."""
    if isinstance(value, dict):
        kept = {name: each for name, each in value.items() if each is not None}
        return {
            name: each if name in ("arguments", "tool_definitions") else without_none(each)
            for name, each in kept.items()
        }
    return [without_none(each) for each in value] if isinstance(value, list) else value


def _agent(run: Run) -> dict[str, Any]:
    tools = [{"type": "function", "function": tool.function} for tool in run.tools]
    return {
        "name": "llm-stages",
        "version": run.packages.get("llm-stages", "unknown"),
        "model_name": run.model,
        "tool_definitions": tools or None,
        "extra": {"dialect": dict(run.dialect), "options": dict(run.options)},
    }


def _first_steps(run: Run) -> Iterator[dict[str, Any]]:
    """The messages of the first request; replies among them are older than the run."""
    messages = run.requests[0].messages if run.requests else ()
    for message in messages:
        is_question = message.role == "user" and message is messages[-1]
        yield {
            "source": _SOURCES[message.role],
            "message": message.text,
            "is_copied_context": None if is_question else True,
        }


def _turn_steps(run: Run, turn: RunTurn) -> Iterator[dict[str, Any]]:
    reply = turn.reply
    if reply is None and not turn.calls:
        return
    observation = [_observed(call) for call in turn.calls if call.result]
    step: dict[str, Any] = {
        "source": "agent",
        "timestamp": timestamp(run, reply.at if reply else turn.calls[0].at),
        "model_name": reply.model if reply else None,
        "message": reply.text if reply else "",
        "reasoning_content": (reply.message.thinking or None) if reply and reply.message else None,
        "tool_calls": [_call(call) for call in turn.calls] or None,
        "observation": {"results": observation} if observation else None,
        "metrics": _metrics(reply) if reply else None,
        "llm_call_count": 1 if reply else 0,
        "extra": _extra(turn),
    }
    yield step
    if turn.decision is not None and turn.decision.feedback:
        at = timestamp(run, turn.decision.at)
        yield {"source": "user", "timestamp": at, "message": turn.decision.feedback}


def _call(call: RunCall) -> dict[str, Any]:
    arguments = json_value(call.arguments)
    is_object = isinstance(arguments, dict)
    return {
        "tool_call_id": call.id,
        "function_name": call.name,
        "arguments": arguments if is_object else {},
        # the format has no place for arguments that are not an object
        "extra": None if is_object else {"arguments_text": call.arguments},
    }


def _observed(call: RunCall) -> dict[str, Any]:
    assert call.result is not None
    result = call.result
    extra = {"status": result.status, "attempts": result.attempts, "duration": result.duration}
    return {"source_call_id": call.id, "content": result.message.text, "extra": extra}


def _metrics(reply: RunReply) -> dict[str, Any] | None:
    usage = reply.usage or Usage()
    extra = {
        "reasoning_tokens": usage.reasoning_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
    }
    metrics = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_input_tokens,
        "cost_usd": reply.cost,
        "extra": without_none(extra) or None,
    }
    return without_none(metrics) or None


def _final_metrics(run: Run, steps: int) -> dict[str, Any]:
    usage = run.end.usage if run.end else Usage()
    return {
        "total_prompt_tokens": usage.input_tokens,
        "total_completion_tokens": usage.output_tokens,
        "total_cached_tokens": usage.cached_input_tokens,
        "total_cost_usd": run.end.cost if run.end else None,
        "total_steps": steps,
    }


def _extra(turn: RunTurn) -> Mapping[str, Any] | None:
    reply, repairs = turn.reply, turn.decision.repairs if turn.decision else ()
    extra = {
        "finish_reason": reply.finish_reason if reply else None,
        "error": reply.error.message if reply and reply.error else None,
        "repairs": [repair.name for repair in repairs] or None,
    }
    return extra if reply or repairs else None


def timestamp(run: Run, at: float) -> str:
    """Return a time of a run as ISO 8601."""
    return datetime.fromtimestamp(run.time + at, UTC).isoformat()
