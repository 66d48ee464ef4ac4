from stage3_tools import ExecutionSettings, Tool


def test_without_settings_nobody_is_asked_and_nothing_is_kept():
    plain = ExecutionSettings()
    assert (plain.approve, plain.approve_result, plain.cache, plain.classify) == (
        None,
        None,
        None,
        None,
    )


def test_what_is_always_approved_belongs_to_one_execution():
    ExecutionSettings().consent.calls["f"] = Tool("f", "", None, lambda arguments: None)
    assert ExecutionSettings().consent.calls == {}
