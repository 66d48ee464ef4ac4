from stage0_gateway import ToolCall
from stage3_tools import Tool, ToolError, ToolResult
from stage3_tools.execution.results import MAY_HAVE_HAPPENED, failed, interrupted, status_after
from tests.tables import for_each

CALL = ToolCall("c1", "f", "{}")


def tool_of(effect):
    return Tool("f", "", None, lambda arguments: None, effect=effect)


def test_failed_creates_a_result_for_the_call():
    error = ToolError("rejected", "No.", details={"by": "Ann"})
    assert failed(CALL, error, duration=0.5, attempts=2) == ToolResult(
        "c1",
        "f",
        '{"status": "rejected", "message": "No."}',
        error.details,
        True,
        error,
        0.5,
        2,
        status="rejected",
    )


@for_each(
    "kind, status",
    [
        ("validation", "error"),
        ("not_found", "error"),
        ("execution", "error"),
        ("rejected", "rejected"),
        ("result_rejected", "result_rejected"),
        ("interrupted", "interrupted"),
    ],
)
def test_the_kind_of_a_refusal_determines_its_status(kind, status):
    result = failed(CALL, ToolError(kind, "x"))
    assert (result.status, result.is_error, result.attempts) == (status, True, 0)


def test_an_unknown_effect_is_stated_in_the_output():
    output = failed(CALL, ToolError("timeout", "Too slow."), "unknown_effect").output
    assert output == f"Error (timeout): Too slow.\n{MAY_HAVE_HAPPENED}"


@for_each(
    "begun, status, attempts",
    [
        (None, "interrupted", 0),
        (tool_of("read"), "interrupted", 1),
        (tool_of("idempotent"), "interrupted", 1),
        (tool_of("write"), "unknown_effect", 1),
    ],
)
def test_an_interrupted_call_has_an_unknown_effect_only_if_a_write_had_begun(
    begun, status, attempts
):
    result = interrupted(CALL, begun)
    assert (result.status, result.error.kind, result.attempts) == (status, "interrupted", attempts)
    assert result.output.startswith(
        "Error (interrupted): The run was stopped before this call had a result."
    )
    assert result.output.endswith(MAY_HAVE_HAPPENED) == (status == "unknown_effect")


def test_an_interrupted_call_may_contain_a_reason():
    assert interrupted(CALL, None, "Because.").output == "Error (interrupted): Because."


@for_each(
    "effect, kind, named, status",
    [
        ("write", "execution", False, "unknown_effect"),
        ("write", "execution", True, "error"),
        ("write", "timeout", True, "unknown_effect"),
        ("write", "network", True, "unknown_effect"),
        ("write", "unknown", True, "unknown_effect"),
        ("idempotent", "timeout", False, "error"),
        ("read", "execution", False, "error"),
    ],
)
def test_a_failed_write_has_an_unknown_effect_unless_the_error_is_explained(
    effect, kind, named, status
):
    assert status_after(tool_of(effect), ToolError(kind, "x"), is_explained=named) == status


def test_the_note_about_an_unknown_effect_survives_truncation():
    result = failed(CALL, ToolError("network", "x" * 500), "unknown_effect")
    assert result.as_message(30).text.endswith(MAY_HAVE_HAPPENED)
    assert result.as_message().text.count(MAY_HAVE_HAPPENED) == 1
