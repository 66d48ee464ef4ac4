from stage2_output.parsing.whitespace import is_closing_markup, skip_whitespace, whitespace_end
from tests.tables import for_each

GAPS = {
    "nothing": ("1", 0, []),
    "the end": ("", 0, []),
    "whitespace": (" \t\r\n1", 4, []),
    "a space that JSON does not allow": (
        "\u00a0 \u30001",
        3,
        [("special_space", 0), ("special_space", 2)],
    ),
    "invisible characters": ("\ufeff\u200b\u20601", 3, [("special_space", 0)]),
    "a form feed": (" \f1", 2, [("special_space", 1)]),
    "a line comment": (" // one\n1", 8, [("comment", 1)]),
    "a line comment of Python": ("# one\r\n1", 7, [("comment", 0)]),
    "a line comment to the end": ("// one", 6, [("comment", 0)]),
    "a comment": ("/* one */1", 9, [("comment", 0)]),
    "a comment over lines": ("/* one\n * two **/ 1", 18, [("comment", 0)]),
    "an empty comment": ("/**/1", 4, [("comment", 0)]),
    "a comment that is never closed": ("/* one * 1", 10, [("comment", 0)]),
    "several": (
        "// one\n /* two */ # three\n1",
        26,
        [("comment", 0), ("comment", 8), ("comment", 18)],
    ),
    "a slash alone": (" /1", 1, []),
    "a comma": (", 1", 0, []),
}


@for_each("text, end, repairs", GAPS.values())
def test_whitespace_ends_at_the_next_character_and_its_repairs_are_reported(text, end, repairs):
    found = []
    assert (skip_whitespace(text, 0, len(text), found), found) == (end, repairs)
    assert whitespace_end(text, 0, len(text)) == end


def test_whitespace_does_not_extend_beyond_the_end():
    found = []
    assert skip_whitespace("1  // two", 1, 5, found) == 5
    assert found == [("comment", 3)]
    assert whitespace_end("1   2", 1, 3) == 3


def test_a_lookahead_ends_inside_a_very_long_comment():
    text = "/*" + "x" * 5000 + "*/ 1"
    assert skip_whitespace(text, 0, len(text), []) == len(text) - 1
    assert whitespace_end(text, 0, len(text)) == 1000


WRAPPING_ENDS = {
    "a fence": "```",
    "a fence and a line": "```\nText",
    "a fence and spaces": "``` \t\r\n",
    "a long fence": "`````\n",
    "a fence that opens": "```json\n{}",
    "a tag": "</tool_call>",
    "a tag and text": "</answer> So be it.",
    "a tag and another": "</a></b>",
    "a tag that is cut off": "</tool_ca",
}
NO_END = {
    "nothing": "",
    "a fence in a text": '``` is a fence", "b": 1}',
    "a fence and a quote": '```"}',
    "two backticks": "``\n",
    "a tag that opens": "<b>",
    "a tag before a quote": '</b>"}',
    "a tag before a comma": "</b>, 1]",
    "a tag before a bracket": "</b> }",
    "a tag without a name": "</ >",
    "anything else": "{",
}


@for_each("text", WRAPPING_ENDS.values())
def test_closing_markup_is_recognized(text):
    assert is_closing_markup(text, 0, len(text))
    assert is_closing_markup("[1 " + text, 3, 3 + len(text))


@for_each("text", NO_END.values())
def test_a_fence_or_tag_that_is_followed_by_json_is_text(text):
    assert not is_closing_markup(text, 0, len(text))
