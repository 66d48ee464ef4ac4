from stage3_tools import ExecutionSettings, Tool


def test_approvals_with_always_are_not_shared_between_settings():
    ExecutionSettings().consent.calls["f"] = Tool("f", "", None, lambda arguments: None)
    assert ExecutionSettings().consent.calls == {}
