from stage3_tools import ExecutionSettings, Tool


def test_the_default_settings_have_no_approver_no_cache_and_no_classifier():
    plain = ExecutionSettings()
    assert (plain.approve, plain.approve_result, plain.cache, plain.classify) == (
        None,
        None,
        None,
        None,
    )


def test_approvals_with_always_are_not_shared_between_settings():
    ExecutionSettings().consent.calls["f"] = Tool("f", "", None, lambda arguments: None)
    assert ExecutionSettings().consent.calls == {}
