import pytest

from stage2_output.parsing.errors import Unrepairable
from stage2_output.parsing.strings import ParsedString, read_string
from tests.tables import for_each

CLOSERS = {"key": "}", "member": "}", "item": "]"}


def read(text, role="member", end=None):
    """Read the string at the beginning of a text, after two other characters."""
    found = read_string(
        "??" + text, 2, 2 + len(text) if end is None else 2 + end, role, CLOSERS[role], {}
    )
    repairs = tuple((name, position - 2) for name, position in found.repairs)
    return found._replace(end=found.end - 2, repairs=repairs)


def rejection(text, role="member"):
    with pytest.raises(Unrepairable) as caught:
        read(text, role)
    return caught.value.problem, caught.value.position - 2


# ---- valid strings

VALID = {
    "text": ('"a b"', "a b"),
    "nothing": ('""', ""),
    "escapes": (r'"\"\\\/\b\f\n\r\t"', '"\\/\b\f\n\r\t'),
    "by number": (r'"\u00e9\uD83D\uDE00"', "é😀"),
    "lone surrogate": (r'"\ud83d"', "\ud83d"),
    "other quotes": ('"it\'s “so” ‘and’ `so`"', "it's “so” ‘and’ `so`"),
    "brackets": ('"}]{[,:"', "}]{[,:"),
    "an escaped backslash": ('"a\\\\"', "a\\"),
    "marks of comments": ('"http://a #b /* c */"', "http://a #b /* c */"),
    "a fence": ('"``` and </b>"', "``` and </b>"),
    "delete": ('"\x7f\u2028"', "\x7f\u2028"),
}
AFTER = {
    "member": ["}", ' , "b": 1}', "\n}", ", b: 1}", ""],
    "item": ["]", ', "b"]', ",\n[]]", ""],
    "key": [": 1}", " : 1}"],
}


@for_each("role", AFTER)
@for_each("text, value", VALID.values())
def test_a_valid_string_is_read_without_repairs_at_any_position(text, value, role):
    for after in AFTER[role]:
        assert read(text + after, role) == ParsedString(value, len(text))


QUOTES = {
    "single": ("'a'", "single_quotes"),
    "backticks": ("`a`", "single_quotes"),
    "accents": ("´a´", "single_quotes"),
    "a backtick and an accent": ("`a´", "single_quotes"),
    "English": ("“a”", "smart_quotes"),
    "German": ("„a“", "smart_quotes"),
    "Polish": ("„a”", "smart_quotes"),
    "Swedish": ("”a”", "smart_quotes"),
    "high reversed": ("‟a”", "smart_quotes"),
    "two that open": ("“a“", "smart_quotes"),
    "half smart": ('“a"', "smart_quotes"),
    "English, single": ("‘a’", "smart_quotes"),
    "German, single": ("‚a‘", "smart_quotes"),
    "Swedish, single": ("’a’", "smart_quotes"),
    "reversed, single": ("‛a’", "smart_quotes"),
    "half smart, single": ("‘a'", "smart_quotes"),
    "full width": ("＂a＂", "fullwidth_punctuation"),
    "half full width": ('＂a"', "fullwidth_punctuation"),
}


@for_each("role", AFTER)
@for_each("text, name", QUOTES.values())
def test_other_kinds_of_quotes_are_read_and_reported(text, name, role):
    for after in AFTER[role]:
        assert read(text + after, role) == ParsedString("a", 3, ((name, 0),))


# ---- missing escapes

REPAIRED = {
    "a line break": ('"a\nb"', "a\nb", [("unescaped_newline", 2)]),
    "a line break of Windows": (
        '"a\r\nb"',
        "a\r\nb",
        [("unescaped_newline", 2), ("unescaped_newline", 3)],
    ),
    "a tab": ('"a\tb"', "a\tb", [("control_character", 2)]),
    "nul": ('"\x00"', "\x00", [("control_character", 1)]),
    "a pair of quotes": (
        '"say "a" b"',
        'say "a" b',
        [("unescaped_quote", 5), ("unescaped_quote", 7)],
    ),
    "a pair at the end": ('"say "a""', 'say "a"', [("unescaped_quote", 5), ("unescaped_quote", 7)]),
    "a pair at the beginning": (
        '""a" b"',
        '"a" b',
        [("unescaped_quote", 1), ("unescaped_quote", 3)],
    ),
    "a pair and a comma": (
        '"a "b", c"',
        'a "b", c',
        [("unescaped_quote", 3), ("unescaped_quote", 5)],
    ),
    "inches": ('"5" nail"', '5" nail', [("unescaped_quote", 2)]),
    "an apostrophe": ("'it's'", "it's", [("single_quotes", 0), ("unescaped_quote", 3)]),
    "a smart apostrophe": ("‘it’s’", "it’s", [("smart_quotes", 0), ("unescaped_quote", 3)]),
    "an escaped apostrophe": (r"'it\'s'", "it's", [("single_quotes", 0), ("invalid_escape", 3)]),
    "an escaped apostrophe for nothing": (r'"it\'s"', "it's", [("invalid_escape", 3)]),
    "quotes of another kind": ("'a \"b\"'", 'a "b"', [("single_quotes", 0)]),
    "quotes of another kind and an escape": (r"""'a "b"\n'""", 'a "b"\n', [("single_quotes", 0)]),
    "escaped quotes of another kind": (r"'a \"b\"'", 'a "b"', [("single_quotes", 0)]),
    "an escape of JavaScript": (
        r'"\x41\x22"',
        'A"',
        [("invalid_escape", 1), ("invalid_escape", 5)],
    ),
    "an escape of Python": (r'"\U0001F600"', "😀", [("invalid_escape", 1)]),
    "the last code point": (r'"\U0010FFFF"', "\U0010ffff", [("invalid_escape", 1)]),
    "a pattern": (r'"^\d+\w$"', r"^\d+\w$", [("invalid_escape", 2), ("invalid_escape", 5)]),
    "a pattern and an escaped backslash": (r'"\d\\n"', r"\d\n", [("invalid_escape", 1)]),
    "three quotes": ('"""a\n b"""', "a\n b", [("triple_quotes", 0)]),
    "three single quotes": ("'''a\nb'''", "a\nb", [("single_quotes", 0), ("triple_quotes", 0)]),
}


@for_each("text, value, repairs", REPAIRED.values())
def test_characters_that_json_requires_to_be_escaped_are_read_and_reported(text, value, repairs):
    unescaped = [name for name, _ in repairs].count("unescaped_quote")
    for after in AFTER["member"]:
        if after != ", b: 1}" or not unescaped:  # which is text after quotes
            assert read(text + after) == ParsedString(
                value, len(text), tuple(repairs), inner_quotes=unescaped
            )


# ---- unterminated strings

CUT = {
    "at once": ('"', "", 1),
    "in the text": ('"a b', "a b", 4),
    "in an escape": ('"a\\', "a", 3),
    "in a number": ('"a\\u12', "a", 6),
    "in an escape of JavaScript": ('"a\\x4', "a", 5),
    "in an escape of Python": ('"a\\U0001F6', "a", 10),
    "in a first surrogate": ('"a\\ud83d', "a", 8),
    "after a first surrogate": ('"a\\ud83d\\', "a", 9),
    "in a second surrogate": ('"a\\ud83d\\ude0', "a", 13),
    "after a surrogate pair": ('"a\\ud83d\\ude00', "a😀", 14),
    "after an escaped quote": ('"a\\"', 'a"', 4),
    "after an escaped backslash": ('"a\\\\', "a\\", 4),
}


@for_each("role", AFTER)
@for_each("text, value, end", CUT.values())
def test_a_string_that_is_cut_off_keeps_its_complete_characters(text, value, end, role):
    assert read(text, role) == ParsedString(value, end, truncated=True)


@for_each(
    "text, value, end",
    [
        ('"a b\n```\nThat is all.', "a b", 4),
        ('"a b\n\n  ```', "a b", 4),
        ('"a b</tool_call> So.', "a b", 4),
        ('"a b\n</tool_call>', "a b", 4),
        ('"a ``` b', "a ``` b", 8),
        ('"a < b', "a < b", 6),
        ('"a\n```\nb\n```', "a", 2),
    ],
)
def test_an_unterminated_string_ends_at_the_end_of_its_wrapping(text, value, end):
    assert read(text) == ParsedString(value, end, truncated=True)


def test_text_after_the_end_is_not_read():
    assert read('"a b"}', end=3) == ParsedString("a ", 3, truncated=True)
    assert read('"a\\"b"}', end=3) == ParsedString("a", 3, truncated=True)


@for_each("fill", [" ", "\n", "\t", " \n", "\n\n```x", "\\n", "a</"])
def test_a_long_unterminated_string_is_cut_off(fill):
    assert read('"' + fill * 15_000).truncated


@for_each(
    "text, role, value, end",
    [
        ('"a, "b": 1}', "member", "a", 2),
        ('"a,\n "b": 1}', "member", "a", 2),
        ('"a b\n"c": 1}', "member", "a b", 4),
        ('"a, "b"]', "item", "a", 2),
        ('"a\n"b"]', "item", "a", 2),
        (r'"\", "b": 1}', "member", '"', 3),
        (r'"a\\, "b": 1}', "member", "a\\", 4),
    ],
)
def test_a_string_without_its_closing_quote_ends_before_the_next_member_or_item(
    text, role, value, end
):
    assert read(text, role) == ParsedString(
        value, end, (("missing_quote", end),), missing_quote=True
    )


# ---- rejected strings

TWO_QUOTES = "has quotes that can be read in more ways than one"
TWO_ESCAPES = "has escapes that can be read in more ways than one"
UNKNOWN = "has an escape that JSON does not know"
REJECTED = {
    "one quote in it": ('"a" b"}', TWO_QUOTES, 2),
    "an apostrophe after a word": ("'the dogs' bone'}", TWO_QUOTES, 9),
    "quotes on several lines": ('"a\nsay "b" c"}', TWO_QUOTES, 12),
    "quotes around a comma": ('"a", "b", "c"}', TWO_QUOTES, 2),
    "a bracket that closes nothing": ('"a"] b"}', TWO_QUOTES, 2),
    "half of a pair": ('"say "b, "c": 1}', TWO_QUOTES, 9),
    "three quotes on a line": ('"""a"""}', TWO_QUOTES, 0),
    "an escape in three quotes": ('"""a\\n\nb"""}', TWO_ESCAPES, 4),
    "quotes, and no end": ('"say "a" b', "has a string that is never closed", 0),
    "a path": (r'"C:\Users"}', UNKNOWN, 3),
    "a path that might be escapes": (r'"C:\dir\new"}', TWO_ESCAPES, 0),
    "a pattern that might be escapes": (r'"\d+\t"}', TWO_ESCAPES, 0),
    "an invalid number": (r'"a\u12"}', UNKNOWN, 2),
    "an invalid escape of JavaScript": (r'"\xg1"}', UNKNOWN, 1),
    "an escape of Python beyond the last code point": (r'"\U00110000"}', UNKNOWN, 1),
    "an escaped letter of another script": (r'"\é"}', UNKNOWN, 1),
    "an escaped blank": (r'"a\ b"}', UNKNOWN, 2),
    "an escaped mark": (r'"100\%"}', UNKNOWN, 4),
}


@for_each("text, reason, position", REJECTED.values())
def test_an_ambiguous_or_invalid_string_is_rejected(text, reason, position):
    assert rejection(text) == (reason, position)
