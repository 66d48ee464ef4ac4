"""The adapters of other libraries, without these libraries."""

import asyncio
import dataclasses
import inspect
import json
from collections import Counter
from typing import Any

import httpx
import pytest

from tests.conformance.case import Case, load_cases
from tests.conformance.grade import Verdict
from tests.conformance.peers.__main__ import result_of
from tests.conformance.peers.claims import checks_messages, checks_of, has_own_ids, outside_of_loops
from tests.conformance.peers.errors import error_kind, failed_request
from tests.conformance.peers.functions import function_of
from tests.conformance.peers.libraries import LIBRARIES, Library
from tests.conformance.peers.model_server import (
    from_anthropic,
    from_openai,
    model_server,
    to_anthropic,
    to_anthropic_messages,
)
from tests.conformance.peers.page import (
    PAGE,
    Result,
    all_cases,
    escaped,
    load_results,
    page,
    reasons_of,
    rows_of,
    section,
)
from tests.conformance.peers.rules import RULES, own_places, unmet
from tests.conformance.surroundings import Failure, Model, Tools

OPERATIONS = {"answer", "registry", "chat", "stream"}
"""The operations of the adapters."""

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


def test_calls_of_a_reply_without_different_ids_are_recognized() -> None:
    found = [has_own_ids(case_of(id)) for id in ("L-170", "L-200", "L-264", "L-265")]
    assert found == [True, True, False, False]
    one = {"replies": [{"tool_calls": [{"id": "", "name": "get_time"}]}]}
    assert not has_own_ids(dataclasses.replace(case_of("L-161"), input=one))


def test_a_check_of_single_messages_is_recognized() -> None:
    assert checks_messages(case_of("L-168"))
    assert checks_messages(case_of("L-191"))  # the places are inside of alternatives
    assert not checks_messages(case_of("L-190"))  # pairs beside a check of the answer


# ---- outcomes


def result(*outcomes: tuple[str, dict[str, Any]]) -> Result:
    """Return the result of a library with these outcomes of cases."""
    verdicts = []
    for id, outcome in outcomes:
        failures = case_of(id).failures(outcome)
        verdicts.append(Verdict(case_of(id), "failed" if failures else "passed", failures, outcome))
    return result_of("library 1.0", verdicts, {"L-162": "the prompt dialect"})


def rows(*outcomes: tuple[str, dict[str, Any]]) -> list[tuple[str, list[str], str]]:
    """Return the ids, the places and the texts of the rows for these outcomes."""
    found = rows_of(LIBRARY, result(*outcomes), all_cases())
    return [(row.case.id, list(row.places), row.text) for row in found]


LIBRARY = Library("langchain_agent", "a library", ("library",), "Its agent.")
DELETE = {"name": "delete", "arguments": {"path": "a"}}
ENDLESS = "It does not stop: more than 60 requests."
TWICE = {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]}
ROME, OSLO = ({"role": "tool", "tool_call_id": "c1", "content": city} for city in ("Rome", "Oslo"))


def test_a_row_describes_the_places_of_its_rule() -> None:
    ran = {"ran": [DELETE, DELETE, DELETE], "requests": [{}, {}]}
    assert rows(
        ("L-183", {**ran, "answer": "Done."}),
        ("L-184", {**ran, "crash": "JSONDecodeError: a | b\n<c>"}),
        ("L-192", {"requests": [{}] * 60, "ran": [], "crash": ENDLESS}),
        ("L-178", {"requests": [{}, {"messages": [ROME]}], "answer": "I do not know."}),
        ("L-190", {"requests": [{}, {}], "answer": ""}),
        ("L-230", {"together": 1, "ran": [{}, {}, {}], "answer": "Done."}),
        (
            "L-264",
            {"ran": [1, 2], "requests": [{}, {"messages": [TWICE, ROME, OSLO]}], "answer": "Both."},
        ),
        ("L-267", {"requests": [{}] * 2, "error": {"kind": "limit", "message": "20 steps"}}),
    ) == [
        (
            "L-183",
            ["/ran"],
            "Calls that run: delete(path='a'), delete(path='a') and 1 more.",
        ),
        (
            "L-184",
            ["/ran"],
            "Calls that run: delete(path='a'), delete(path='a') and 1 more. "
            "It ends with the exception JSONDecodeError: a | b <c>",
        ),
        ("L-192", ["/error/kind"], "The run does not stop within 60 requests."),
        ("L-178", ["/requests/1/messages/-1/content"], "The text is 'Rome'."),
        (
            "L-190",
            ["/answer", "/requests", "/requests/2/messages"],
            "The answer is ''. Requests: 2.",
        ),
        ("L-230", ["/together"], "Calls that run at the same time: 1."),
        (
            "L-264",
            ["/requests/1/messages"],
            "A request contains 2 calls with the id 'c1'.",
        ),
        (
            "L-267",
            ["/requests", "/error/kind"],
            "Requests: 2. It ends with the error limit: 20 steps",
        ),
    ]


def test_a_case_whose_situation_did_not_occur_is_not_applicable() -> None:
    found = result(
        ("L-191", {"answer": "", "requests": [{}]}),
        ("L-197", {"crash": ENDLESS, "requests": [{}] * 60}),
        ("L-205", {"crash": "UserError", "requests": []}),
        ("L-231", {"together": 1, "requests": [{}]}),
    )
    assert rows_of(LIBRARY, found, all_cases()) == []
    assert reasons_of(found, all_cases()) == {
        "the prompt dialect": 1,
        "the request after an empty reply, without such a request": 1,
        "the messages at a limit, without a limit": 1,
        "a history with an open call, which the library rejects": 1,
        "the order of calls that run at the same time, without such calls": 1,
    }


# ---- the page


def test_the_page_counts_the_cases_and_lists_decisions_separately() -> None:
    found = result(
        ("L-160", {"answer": "Hello.", "ran": [], "requests": [{}]}),
        ("L-183", {"ran": [DELETE], "requests": [{}, {}], "answer": "Done."}),
        ("L-192", {"crash": ENDLESS, "requests": [{}] * 60}),
        ("L-178", {"crash": "Error: a | b\n<c>", "requests": [{}]}),
    )
    text = page("2026-01-31", {"langchain_agent": found})
    decided = text.index("Documented decisions:\n")
    assert "wrote the results on 2026-01-31" in text
    assert "| langchain, create_agent | library 1.0 | 1 | 1 | 0 | 0 | 2 | 1 |" in text
    assert (
        "| MUST: A reply that was cut off runs no call. | L-183 | Calls that run: "
        in text[:decided]
    )
    assert "a limit of 9,999 steps" in text[decided:]
    assert "`ToolErrorMiddleware` converts it into a result. ([source](https://" in text[decided:]
    assert "Not applicable: the prompt dialect (1)." in text
    assert escaped("a | b <c>") == "a \\| b \\<c\\>"


def test_a_library_without_failures_has_no_table() -> None:
    text = section(LIBRARY, [], Counter())
    assert text == "## a library\n\nIts agent.\n\nNo applicable case failed.\n"


# ---- the recorded results


def test_the_page_is_the_one_of_the_recorded_results() -> None:
    """A failure: `make course` writes the page."""
    day, results = load_results()
    assert list(results) == [each.module for each in LIBRARIES]
    assert page(day, results) == PAGE.read_text(encoding="utf-8")


def test_each_displayed_rule_is_about_the_place_that_failed() -> None:
    """A failure: grade again, or state in rules.py which places the rule is about."""
    cases = all_cases()
    wrong = []
    for library in LIBRARIES:
        result = load_results()[1][library.module]
        for row in rows_of(library, result, cases):
            places = {check["at"] for check in checks_of(row.case.expect)}
            if row.case.rule not in RULES or not row.text or not places.issuperset(row.places):
                wrong.append((library.title, row))
    assert wrong == []


def test_each_check_of_a_displayed_rule_belongs_to_it_or_is_a_condition_of_it() -> None:
    """Otherwise a library that fails the check seems to violate the rule, or to follow it."""
    cases = [case for case in all_cases().values() if case.operation in OPERATIONS]
    wrong = [
        (case.id, check["at"])
        for case in cases
        if case.rule in RULES
        for check in checks_of(case.expect)
        if not own_places(case, [check["at"]]) and not unmet(case, [check["at"]])
    ]
    assert wrong == []
    assert set(RULES) - {case.rule for case in cases} == set()


def test_a_documented_decision_is_about_cases_that_fail_and_has_a_link() -> None:
    cases = all_cases()
    for library in LIBRARIES:
        rows = rows_of(library, load_results()[1][library.module], cases)
        decided = {id for decision in library.decisions for id in decision.cases}
        assert decided == {row.case.id for row in rows if row.decision}
        assert all(each.link.startswith("https://") for each in library.decisions)
