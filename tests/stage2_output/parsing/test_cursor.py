from stage2_output.parsing.cursor import Cursor
from stage2_output.parsing.errors import Repair


def cursor(text, at=0):
    return Cursor(text, at, len(text))


def test_a_gap_is_passed_and_what_json_does_not_know_in_it_is_noted():
    here = cursor(" // one\n\u00a0{", 0)
    here.gap()
    assert (here.at, here.repairs) == (9, [Repair("comment", 1), Repair("special_space", 8)])


def test_a_wide_mark_is_read_as_ascii_and_noted_once():
    here = cursor("：")
    assert (here.mark(), here.mark()) == (":", ":")
    assert here.repairs == [Repair("fullwidth_punctuation", 0)]


def test_any_other_mark_is_read_as_it_is():
    here = cursor("[x", 1)
    assert (here.mark(), here.repairs) == ("x", [])


def test_the_end_is_where_the_text_or_its_wrapping_ends():
    assert cursor("{", 1).at_end()
    assert cursor("{\n```", 2).at_end()
    assert not cursor("{}", 1).at_end()
