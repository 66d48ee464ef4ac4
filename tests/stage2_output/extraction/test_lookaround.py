import pytest

from stage2_output.extraction import lookaround


@pytest.mark.parametrize(
    "text",
    [
        '{"a',
        "{'a",
        "{“a",
        "{}",
        "{ }",
        "{a: 1",
        "{a-b : 1",
        '{a": 1',
        "{, ",
        "{// c",
        "{/* c",
        "{# c",
        '{\\"a',
        "{",
        '{{"a',
        '｛"a',
        "[{",
        "[[",
        '["',
        "['",
        "[1",
        "[-1",
        "[.5",
        "[true",
        "[None,",
        "[]",
        "[,",
        "[/* c",
        "[# c",
        "[",
    ],
)
def test_what_looks_like_json_begins_it(text):
    assert lookaround.begins_json(text, 0)


@pytest.mark.parametrize(
    "text",
    [
        "{name}",
        "{first name}",
        "{{name}}",
        "{ return x",
        "{#if",
        "[see below]",
        "[note, 1]",
        "[#12]",
        "[x]",
    ],
)
def test_words_in_brackets_begin_none(text):
    assert not lookaround.begins_json(text, 0)


@pytest.mark.parametrize("text", ["{name}", "{first name}", "[see below]", "[a/b]", "{x.y}"])
def test_brackets_around_nothing_but_words_are_a_placeholder(text):
    assert lookaround.is_placeholder(text, 0)


@pytest.mark.parametrize("text", ['{"a"}', "{a, b}", "[a, b]", "{a"])
def test_brackets_around_more_are_no_placeholder(text):
    assert not lookaround.is_placeholder(text, 0)


@pytest.mark.parametrize(
    "text", ["items[0]", "f()[1]", "m[0][1]", "f{}", "${a: 1}", "\\{x: y}", "x_[1]"]
)
def test_a_bracket_in_a_word_is_an_index(text):
    assert lookaround.is_subscript(text, max(text.rfind("["), text.find("{")))


@pytest.mark.parametrize("text", [": [1]", "是[1]", 'json{"a": 1}', "[1]", "({}"])
def test_a_bracket_by_itself_is_no_index(text):
    assert not lookaround.is_subscript(text, max(text.rfind("["), text.find("{")))


@pytest.mark.parametrize("behind", ['"', "'", ', "b": 1}', ', "b"]', ", 2]", " , x}", ': "b", '])
def test_a_member_an_item_or_a_quote_behind_a_value_says_that_it_goes_on(behind):
    assert lookaround.continues("{}" + behind, 2)


@pytest.mark.parametrize("behind", ["", " ", ".", ', {"b": 1}', ", and [2]", "\n```", "</a>"])
def test_other_text_behind_a_value_does_not(behind):
    assert not lookaround.continues("{}" + behind, 2)


@pytest.mark.parametrize(
    ("behind", "glued"), [('x"', True), ("1}", True), (".", False), (" x}", False), (";", False)]
)
def test_text_that_touches_a_value_and_ends_like_json_is_glued_to_it(behind, glued):
    assert lookaround.is_glued("{}" + behind, 2) is glued


@pytest.mark.parametrize(("behind", "end"), [("", 2), ("}", 3), (" ] }x", 6), (" x}", 2)])
def test_closing_brackets_behind_a_value_are_extra(behind, end):
    assert lookaround.extra_closers_end("{}" + behind, 2) == end


@pytest.mark.parametrize(
    ("behind", "more"),
    [(', "b"', True), (" [", True), (".", False), ("", False), ("\nText", False)],
)
def test_behind_extra_brackets_json_goes_on_or_not(behind, more):
    assert lookaround.continues_behind_closers("{}}" + behind, 3) is more


@pytest.mark.parametrize(
    ("behind", "too_much"),
    [(", 2]", True), (", [2]", False), (', "]"', False), (", [2]]", True), ("", False)],
)
def test_brackets_that_were_not_opened_say_that_a_value_is_a_part(behind, too_much):
    assert lookaround.closes_unopened("[1]" + behind, 3) is too_much


@pytest.mark.parametrize(
    ("behind", "ends"), [("", True), (" \nx", True), ("```", True), (" </a>", True), (" x", False)]
)
def test_a_line_ends_behind_a_value_where_no_text_follows(behind, ends):
    assert lookaround.ends_line("{}" + behind, 2) is ends


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("- [ ] buy", True),
        ("to do:\n 2. [ ] buy", True),
        ("[ ] buy", False),
        ("- [] buy", False),
        ("it is [ ]", False),
    ],
)
def test_a_box_to_be_ticked_is_known(text, box):
    assert lookaround.is_checkbox(text, text.index("[")) is box


@pytest.mark.parametrize(("behind", "follows"), [(", 1", True), (" ，", True), (". ,", False)])
def test_a_comma_behind_a_value_is_seen(behind, follows):
    assert lookaround.is_comma_next("{}" + behind, 2) is follows


@pytest.mark.parametrize(
    ("behind", "mark"), [("\n```", "```"), (" </think>", "</"), (" x", ""), ("", "")]
)
def test_a_fence_or_closing_tag_behind_a_value_is_found(behind, mark):
    assert lookaround.closing_markup("{}" + behind, 2) == mark
