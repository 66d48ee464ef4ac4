"""The adapters of other libraries, without these libraries."""

import asyncio
import inspect
import json
from typing import Any

import httpx
import pytest

from tests.conformance.case import Case, load_cases
from tests.conformance.grade import Verdict
from tests.conformance.peers.__main__ import Graded, page
from tests.conformance.peers.claims import checks_messages, outside_of_loops, unobserved
from tests.conformance.peers.errors import error_kind, failed_request
from tests.conformance.peers.functions import function_of
from tests.conformance.peers.model_server import (
    from_anthropic,
    from_openai,
    model_server,
    to_anthropic,
    to_anthropic_messages,
)
from tests.conformance.surroundings import Failure, Model, Tools

WEATHER = {
    "name": "get_weather",
    "description": "Get the weather.",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "the city"},
            "unit": {"type": "string", "enum": ["C", "F"]},
        },
        "required": ["city"],
    },
}
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
}


def case_of(id: str) -> Case:
    """Return a case of stage 3."""
    return next(case for case in load_cases("stage3") if case.id == id)


# ---- functions


def test_a_tool_is_a_function_with_named_parameters() -> None:
    function = function_of(WEATHER, Tools([WEATHER]).run)
    parameters = inspect.signature(function).parameters
    assert function.__name__ == "get_weather"
    assert list(parameters) == ["city", "unit"]
    assert parameters["city"].default is inspect.Parameter.empty
    assert parameters["unit"].default is None
    assert "city: the city" in (function.__doc__ or "")


def test_arguments_that_the_model_left_out_are_not_passed_on() -> None:
    tools = Tools([WEATHER])
    assert json.loads(function_of(WEATHER, tools.run)(city="Rome", unit=None)) == {"city": "Rome"}
    assert tools.ran == [{"name": "get_weather", "arguments": {"city": "Rome"}}]


def test_an_async_tool_is_an_async_function() -> None:
    spec = {**WEATHER, "async": True, "behavior": {"returns": "warm"}}
    function = function_of(spec, Tools([spec]).run)
    assert inspect.iscoroutinefunction(function)
    assert asyncio.run(function(city="Rome")) == "warm"


def test_a_schema_that_a_signature_cannot_express_is_unsupported() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    with pytest.raises(Failure) as raised:
        function_of({"name": "f", "parameters": schema}, lambda name, arguments: None)
    assert raised.value.kind == "unsupported"


# ---- formats


def test_parts_of_text_are_joined() -> None:
    parts = [{"type": "text", "text": "New task:"}, {"type": "text", "text": " Hi"}]
    messages, tools = from_openai({"messages": [{"role": "user", "content": parts}]})
    assert messages == [{"role": "user", "content": "New task: Hi"}]
    assert tools == []


def test_a_conversation_survives_the_conversion_to_anthropic_and_back() -> None:
    conversation: list[dict[str, Any]] = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Is it warm?"},
        {"role": "assistant", "content": "I will look.", "tool_calls": [CALL]},
    ]
    system, messages = to_anthropic_messages(conversation)
    assert from_anthropic({"system": system, "messages": messages})[0] == conversation


def test_results_of_anthropic_are_tool_messages() -> None:
    block = {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [{"type": "text", "text": "warm"}],
    }
    messages, _ = from_anthropic({"messages": [{"role": "user", "content": [block]}]})
    assert messages == [{"role": "tool", "tool_call_id": "c1", "content": "warm"}]


def test_a_refusal_has_the_stop_reason_of_anthropic() -> None:
    message = {"role": "assistant", "content": "I cannot help."}
    reply = to_anthropic({"message": message, "finish_reason": "content_filter"})
    assert reply["stop_reason"] == "refusal"
    assert reply["content"] == [{"type": "text", "text": "I cannot help."}]


def test_arguments_that_are_not_json_do_not_fit_anthropic() -> None:
    call = {**CALL, "function": {"name": "get_weather", "arguments": "{"}}
    with pytest.raises(Failure):
        to_anthropic({"message": {"content": "", "tool_calls": [call]}, "finish_reason": "stop"})


async def test_a_request_reaches_the_model_of_a_case() -> None:
    model = Model(["Hello.", {"error": "temporary"}], repeat=False)
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    async with model_server(model.ask) as (url, sent), httpx.AsyncClient() as client:
        answer = (await client.post(f"{url}/v1/chat/completions", json=body)).json()
        assert answer["choices"][0]["message"]["content"] == "Hello."
        assert sent == body["messages"]
        assert (await client.post(f"{url}/v1/chat/completions", json=body)).status_code == 503


# ---- errors


class StatusError(Exception):
    """An error of a client with a status."""

    def __init__(self, status_code: int) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


@pytest.mark.parametrize(
    ("status", "kind"), [(503, "temporary"), (429, "temporary"), (400, "permanent")]
)
def test_the_status_decides_about_the_kind_of_an_error(status: int, kind: str) -> None:
    assert error_kind(StatusError(status)) == kind


def test_the_kind_of_an_error_is_found_in_its_cause() -> None:
    error = RuntimeError("the agent failed")
    error.__cause__ = StatusError(503)
    outcome = failed_request(error, [{"role": "user", "content": "Hi"}])
    assert outcome["error"] == {"kind": "temporary", "message": "the agent failed"}
    assert outcome["messages"] == [{"role": "user", "content": "Hi"}]


def test_an_error_of_a_tool_is_not_a_failed_request() -> None:
    with pytest.raises(ZeroDivisionError):
        failed_request(ZeroDivisionError(), [])


# ---- claims


def test_cases_of_the_prompt_dialect_are_outside_of_other_loops() -> None:
    assert outside_of_loops(case_of("L-162")) == "the prompt dialect"
    assert outside_of_loops(case_of("L-206")) == "a window of 8,000 tokens"
    assert outside_of_loops(case_of("L-161")) == ""


def test_a_time_limit_is_outside_unless_the_library_has_it() -> None:
    assert outside_of_loops(case_of("L-238")) != ""
    assert outside_of_loops(case_of("L-238"), has_timeout=True) == ""


def test_a_check_of_single_messages_is_recognized() -> None:
    assert checks_messages(case_of("L-168"))
    assert checks_messages(case_of("L-191"))  # the places are inside of alternatives
    assert not checks_messages(case_of("L-190"))  # pairs beside a check of the answer


def test_a_case_that_did_not_reach_its_rule_is_not_a_failure_of_it() -> None:
    assert unobserved(failed("L-191", {"answer": "", "requests": [{}]})) != ""
    assert unobserved(failed("L-197", {"crash": "It does not stop: no outcome."})) != ""
    assert unobserved(failed("L-205", {"crash": "UserError", "requests": []})) != ""
    assert unobserved(failed("L-183", {"ran": [1], "requests": [{}]})) == ""


# ---- the page


def failed(id: str, outcome: dict[str, Any]) -> Verdict:
    """Return the verdict of an outcome that fails a case."""
    case = case_of(id)
    return Verdict(case, "failed", case.failures(outcome), outcome)


def test_the_page_counts_the_cases_and_lists_the_failed_rules() -> None:
    ran = [{"name": "delete", "arguments": {"path": "a"}}]
    verdicts = [
        Verdict(case_of("L-160"), "passed", [], {}),
        failed("L-183", {"ran": ran, "requests": [{}, {}], "answer": "Done."}),
        failed("L-192", {"crash": "It does not stop: more than 60 requests."}),
        Verdict(case_of("L-162"), "unsupported", ["the prompt dialect"], {}),
    ]
    text = page([Graded("a library", "library 1.0", "Its agent.", verdicts)], "2026-01-31")
    assert "wrote this page on 2026-01-31" in text
    assert "| a library | library 1.0 | 1 | 2 | 0 | 0 | 1 |" in text
    assert "MUST: A reply that was cut off runs no call." in text
    assert "Calls that run: delete(path='a')." in text
    assert "The run does not stop." in text
    assert "Not applicable: the prompt dialect (1)." in text


def test_texts_of_a_library_do_not_break_the_table() -> None:
    verdict = failed("L-178", {"crash": "Error: a | b\n<c>"})
    text = page([Graded("a library", "library 1.0", "Its agent.", [verdict])], "2026-01-31")
    assert "It ends with the exception Error: a \\| b \\<c\\>" in text


def test_a_library_without_failures_has_no_table() -> None:
    passed = Verdict(case_of("L-160"), "passed", [], {})
    text = page([Graded("a library", "library 1.0", "Its agent.", [passed])], "2026-01-31")
    assert "Every applicable case passed." in text
