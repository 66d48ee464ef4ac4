from stage2_output import ParseResult


def test_a_result_shown_in_a_log_leaves_out_the_text():
    assert "hunter2" not in repr(ParseResult(True, 1, (), "hunter2"))
    assert ParseResult(True, 1, (), "a") != ParseResult(True, 1, (), "b")
