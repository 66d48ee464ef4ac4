from stage2_output.extraction import lookaround
from tests.tables import for_each


@for_each(
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
def test_begins_json_accepts_the_beginning_of_an_object_or_a_list(text):
    assert lookaround.begins_json(text, 0)


@for_each(
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
def test_begins_json_rejects_words_in_brackets(text):
    assert not lookaround.begins_json(text, 0)


@for_each("text", ["{name}", "{first name}", "[see below]", "[a/b]", "{x.y}"])
def test_brackets_around_words_only_are_a_placeholder(text):
    assert lookaround.is_placeholder(text, 0)


@for_each("text", ['{"a"}', "{a, b}", "[a, b]", "{a"])
def test_brackets_around_more_than_words_are_not_a_placeholder(text):
    assert not lookaround.is_placeholder(text, 0)


@for_each("text", ["items[0]", "f()[1]", "m[0][1]", "f{}", "${a: 1}", "\\{x: y}", "x_[1]"])
def test_a_bracket_directly_after_a_word_is_a_subscript(text):
    assert lookaround.is_subscript(text, max(text.rfind("["), text.find("{")))


@for_each("text", [": [1]", "是[1]", 'json{"a": 1}', "[1]", "({}"])
def test_a_bracket_that_does_not_follow_a_word_is_not_a_subscript(text):
    assert not lookaround.is_subscript(text, max(text.rfind("["), text.find("{")))


@for_each("after", ['"', "'", ', "b": 1}', ', "b"]', ", 2]", " , x}", ': "b", '])
def test_a_value_continues_if_a_member_an_item_or_a_quote_follows(after):
    assert lookaround.continues("{}" + after, 2)


@for_each("after", ["", " ", ".", ', {"b": 1}', ", and [2]", "\n```", "</a>"])
def test_a_value_does_not_continue_if_other_text_follows(after):
    assert not lookaround.continues("{}" + after, 2)


@for_each("after, glued", [('x"', True), ("1}", True), (".", False), (" x}", False), (";", False)])
def test_text_directly_after_a_value_that_ends_like_json_is_glued_to_it(after, glued):
    assert lookaround.is_glued("{}" + after, 2) is glued


@for_each("after, end", [("", 2), ("}", 3), (" ] }x", 6), (" x}", 2)])
def test_closing_brackets_after_a_value_are_extra_closers(after, end):
    assert lookaround.extra_closers_end("{}" + after, 2) == end


@for_each(
    "after, more", [(', "b"', True), (" [", True), (".", False), ("", False), ("\nText", False)]
)
def test_text_after_extra_closers_may_continue_the_json(after, more):
    assert lookaround.continues_behind_closers("{}}" + after, 3) is more


@for_each(
    "after, too_much",
    [(", 2]", True), (", [2]", False), (', "]"', False), (", [2]]", True), ("", False)],
)
def test_closing_brackets_without_an_opening_one_mark_a_value_as_a_part(after, too_much):
    assert lookaround.closes_unopened("[1]" + after, 3) is too_much


@for_each(
    "after, ends", [("", True), (" \nx", True), ("```", True), (" </a>", True), (" x", False)]
)
def test_a_line_ends_after_a_value_if_no_text_follows(after, ends):
    assert lookaround.ends_line("{}" + after, 2) is ends


@for_each(
    "text, is_box",
    [
        ("- [ ] buy", True),
        ("to do:\n 2. [ ] buy", True),
        ("[ ] buy", False),
        ("- [] buy", False),
        ("it is [ ]", False),
    ],
)
def test_a_checkbox_is_recognized(text, is_box):
    assert lookaround.is_checkbox(text, text.index("[")) is is_box


@for_each(
    "before, is_answer",
    [
        ("", True),
        ("So it is:\n", True),
        ("The answer: ", True),
        ("答案：", True),
        ("  - ", True),
        ("\n" + " " * 39, True),
        (" " * 40, True),
        ("x" + " " * 40, False),
        ("It is ", False),
    ],
)
def test_a_value_is_an_answer_at_the_beginning_of_a_line_or_behind_a_colon(before, is_answer):
    assert lookaround.is_answer_position(f"{before}[1]", len(before)) is is_answer


@for_each("after, follows", [(", 1", True), (" ，", True), (". ,", False)])
def test_a_comma_after_a_value_is_recognized(after, follows):
    assert lookaround.is_comma_next("{}" + after, 2) is follows


@for_each("after, mark", [("\n```", "```"), (" </think>", "</"), (" x", ""), ("", "")])
def test_a_fence_or_a_closing_tag_after_a_value_is_recognized(after, mark):
    assert lookaround.closing_markup("{}" + after, 2) == mark
