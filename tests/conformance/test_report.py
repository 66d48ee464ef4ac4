"""The report of graded cases."""

import re
from dataclasses import replace

from tests.conformance.case import Case, Mismatch
from tests.conformance.grade import Verdict
from tests.conformance.report import Report


def verdict(number=1, step=1, status="failed", level="MUST", text="x", failures=()):
    case = Case(
        f"O-00{number}", f"Rule {number}.", level, "stage2", step, "read", {"text": text}, [],
        {"library": "lib", "source": "a/b#1"}, "docs/page.md#x", "stage2_output/result.py::Issue", "H.",
    )  # fmt: skip
    return Verdict(case, status, list(failures), {"value": 1})


def lines(*verdicts, **settings):
    return "\n".join(Report({1: "Find", 2: "Parse"}, **settings).lines(verdicts))


def test_a_bar_shows_the_passed_cases_of_a_step():
    printed = lines(verdict(1), verdict(2, status="passed"))
    assert "Step 1: Find" in printed
    assert "##########..........   1 of 2" in printed


def test_the_failure_with_the_smallest_input_of_the_first_step_is_shown():
    printed = lines(verdict(1, step=2), verdict(2, text="long"), verdict(3, text="s"))
    assert "O-003 failed (Step 1: Find)" in printed
    assert "2 other MUST cases failed: O-001, O-002" in printed


def test_the_report_contains_input_expected_and_actual_value():
    failures = [Mismatch("/value", "1", "'1'"), Mismatch("/issues", "no value", "missing")]
    printed = lines(verdict(failures=failures))
    assert "text      'x'" in printed
    assert "expected  /value: 1\n  actual    '1'" in printed
    assert "outcome   {'value': 1}" in printed
    assert "seen in   lib: a/b#1" in printed
    assert re.search(r"complete  stage2_output/result\.py:\d+ \(Issue\)", printed)


def test_a_step_that_passed_names_the_next_one():
    functions = {1: ["find"], 2: ["parse", "strict"]}
    passed = verdict(status="passed")
    assert "Next: Step 2: Parse (parse, strict)" in lines(passed, functions=functions, step=1)
    assert "Next: grade the whole file" in lines(passed, functions=functions, step=2)
    assert "Next: docs/x.md" in lines(passed, following="docs/x.md")


def test_a_bar_is_red_only_if_a_must_case_failed():
    recommended = lines(verdict(1, status="passed"), verdict(2, level="SHOULD"), color=True)
    assert "\x1b[33m##########..........\x1b[0m   1 of 2 (1 recommended)" in recommended
    assert "\x1b[31m....................\x1b[0m   0 of 1" in lines(verdict(), color=True)


def test_the_functions_that_an_operation_checks_are_named():
    assert "\n  read, to check find, unwrap\n" in lines(
        verdict(), functions={1: ["find", "unwrap"]}
    )
    assert "\n  read\n" in lines(verdict(), functions={1: ["read"]})


def test_the_answers_of_a_server_are_shown_as_their_lines():
    failed = verdict()
    failed.case.input["server"] = [
        {"events": [{"choices": []}, "[DONE]"]},
        {"status": 503, "text": "no"},
    ]
    shown = lines(failed)
    assert "server    200\n" in shown
    assert '\n              data: {"choices": []}\n              data: [DONE]\n' in shown
    assert "\n              503\n              no\n" in shown


def test_the_output_of_the_file_is_shown_apart():
    printed = replace(verdict(failures=["why"]), printed="a\n" * 12)
    assert "  Your file printed:\n    | a\n" in lines(printed)
    assert lines(printed).count("    | a") == 10


def test_a_run_without_end_is_shown_before_other_failures_of_its_step():
    endless = replace(verdict(1, text="longer"), outcome={"crash": "It does not stop: why."})
    assert "O-001 failed" in lines(endless, verdict(2, text=""))


def test_the_hint_is_shown_on_demand():
    assert "hint      H." in lines(verdict(), hint=True)
    assert "H." not in lines(verdict())


def test_a_should_case_is_recommended_and_an_info_case_is_not_mentioned():
    printed = lines(
        verdict(1, level="SHOULD"), verdict(2, level="INFO"), verdict(3, status="passed")
    )
    assert "Every MUST case passed." in printed
    assert "Recommended (O-001): Rule 1." in printed
    assert "Rule 2" not in printed


def test_recommendations_follow_when_every_must_case_passes():
    assert "Recommended" not in lines(verdict(1, level="SHOULD"), verdict(2))


def test_colors_add_nothing_but_colors():
    failed = verdict(failures=["why"])
    plain, colored = lines(failed), lines(failed, color=True)
    assert "\x1b[31m" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored) == plain


def test_an_input_of_many_lines_is_shortened():
    assert "more lines)" in lines(verdict(text=["a" * 70] * 50))


def test_a_long_text_of_an_input_does_not_hide_the_other_fields():
    failed = verdict(text=[{"content": "a" * 5000}])
    failed.case.input["limit"] = 7
    printed = lines(failed)
    assert "5,000" in printed
    assert "limit     7" in printed
