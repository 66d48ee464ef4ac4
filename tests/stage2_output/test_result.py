from stage2_output import ParseResult


def test_the_repr_of_a_result_does_not_contain_the_text():
    assert "hunter2" not in repr(ParseResult(True, 1, (), "hunter2"))
    assert ParseResult(True, 1, (), "a") != ParseResult(True, 1, (), "b")
