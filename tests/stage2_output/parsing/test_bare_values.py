import pytest

from stage2_output.parsing.bare_values import BareValue, read_bare_value
from stage2_output.parsing.errors import Unrepairable
from tests.tables import for_each

PLAIN = {
    "number": ("1", 1, None),
    "negative": ("-2", -2, None),
    "fraction": ("1.50", 1.5, None),
    "exponent": ("1E+2", 100.0, None),
    "minus zero": ("-0.0", -0.0, None),
    "long": ("1" * 300, int("1" * 300), None),
    "plus": ("+1", 1, "number"),
    "no digit before the point": ("-.5", -0.5, "number"),
    "no digit after the point": ("1.", 1.0, "number"),
    "true": ("true", True, None),
    "false": ("false", False, None),
    "null": ("null", None, None),
    "True": ("True", True, "literal"),
    "False": ("False", False, "literal"),
    "None": ("None", None, "literal"),
    "upper case": ("TRUE", True, "literal"),
    "undefined": ("undefined", None, "literal"),
    "nil": ("nil", None, "literal"),
}


@for_each(
    "after",
    [",", " ,", "\n}", "]", "}", ' "b"', " // one", " # one", "/* one */", " </b>", " ..."],
)
@for_each("text, value, name", PLAIN.values())
def test_numbers_and_literals_are_read(text, value, name, after):
    repairs = ((name, 1),) if name else ()
    whole = "[" + text + after
    word = read_bare_value(whole, 1, len(whole))
    assert word == BareValue(value, 1 + len(text), "plain", repairs)
    assert repr(word.value) == repr(value)  # repr distinguishes 1, 1.0 and True


@for_each("after", ["// metres", "#3", "...", "…", "...9"])
@for_each("text, value", [("1.5", 1.5), ("-2", -2), ("true", True), ("null", None)])
def test_a_comment_or_an_ellipsis_directly_after_a_value_is_not_part_of_it(text, value, after):
    whole = text + after + ","
    assert read_bare_value(whole, 0, len(whole)) == BareValue(value, len(text), "plain")


@for_each("blank", [" ", "\u00a0", "\u3000", "\u200b", "\ufeff", " \u200b "])
def test_whitespace_and_invisible_characters_are_not_part_of_a_value(blank):
    for text, value, kind in [("1", 1, "plain"), ("true", True, "plain"), ("b c", "b c", "text")]:
        assert read_bare_value(text + blank + ",", 0, len(text + blank) + 1)[:3] == (
            value,
            len(text),
            kind,
        )


TEXTS = [
    "hello",
    "hello big world",
    "it's",
    "the 1st",
    "http://a.b/c#d",
    "v1.2.3",
    "1.2.3",
    "2024-01-31",
    "01/02/2024",
    "12:30",
    "10%",
    "$5",
    "5 kg",
    "~/x",
    "/usr/bin",
    ".gitignore",
    "@me",
    "me@b.cd",
    "C:\\x",
    "more (or less)",
    "no",
    "n",
    "nonsense",
    "NaNa",
    "a...",
    "a-b + c",
    "é",
    "中文",
    "x" * 1000,
]


@for_each(
    "after",
    [
        ",",
        " ,",
        "，",
        "\n",
        "]",
        "}",
        "｝",
        ' "b"',
        "“",
        " // one",
        " # one",
        "/* one */",
        "```",
        " …",
    ],
)
@for_each("text", TEXTS)
def test_text_without_quotes_ends_at_a_mark_or_at_the_end_of_the_line(text, after):
    whole = "[" + text + after
    assert read_bare_value(whole, 1, len(whole)) == BareValue(
        text, 1 + len(text), "text", (("unquoted_text", 1),)
    )


@for_each(
    "text, value",
    [
        *[
            (text, None)
            for text in ("t", "tru", "fals", "n", "nul", "T", "Non", "-", "+", ".", "-.")
        ],
    ],
)
def test_a_literal_or_sign_that_is_cut_off_has_no_value(text, value):
    assert read_bare_value("[" + text, 1, 1 + len(text)) == BareValue(value, 1 + len(text), "cut")


@for_each("text", ["hello", "12ab", "10%", "nona"])
def test_text_that_may_be_cut_off_is_read_to_the_end(text):
    assert read_bare_value("[" + text, 1, 1 + len(text)) == BareValue(
        text, 1 + len(text), "text", (("unquoted_text", 1),)
    )


@for_each("text, value", [("true", True), ("null", None), ("False", False), ("nil", None)])
def test_a_literal_at_the_end_is_complete(text, value):
    word = read_bare_value("[" + text, 1, 1 + len(text))
    assert (word.value, word.kind) == (value, "plain")


@for_each(
    "text, value", [("12.", 12), ("-1.5e", -1.5), ("1e+", 1), ("0.", 0), ("12", 12), ("1.5", 1.5)]
)
def test_a_number_that_may_be_cut_off_is_read_up_to_its_last_complete_part(text, value):
    word = read_bare_value("[" + text + "!", 1, 1 + len(text))
    assert word == BareValue(value, 1 + len(text), "plain")
    assert repr(word.value) == repr(value)


TWO_READINGS = "has text without quotes that can be read in more ways than one"
INVALID = "has an invalid number or literal"
UNKNOWN = "has a number in a format that JSON does not allow"
TOO_LARGE = "has a number that is too large"
NO_VALUE = "has an invalid value"
REJECTED = {
    "nothing": ("", "lacks a value"),
    "only a comment": ("/* one */", "lacks a value"),
    "NaN": ("NaN", "has NaN, which is not a JSON value"),
    "nan": ("nan", "has nan, which is not a JSON value"),
    "infinity": ("-Infinity", "has -Infinity, which is not a JSON value"),
    "inf": ("inf", "has inf, which is not a JSON value"),
    "leading zero": ("007", UNKNOWN),
    "leading zero, negative": ("-01.5", UNKNOWN),
    "hexadecimal": ("0x1F", UNKNOWN),
    "octal": ("0o17", UNKNOWN),
    "two underscores": ("1__000", UNKNOWN),
    "spaces": ("1 000", UNKNOWN),
    "apostrophes": ("1'000", UNKNOWN),
    "a telephone number": ("+49 30 123", UNKNOWN),
    "too large": ("1e999", TOO_LARGE),
    "too large, negative": ("-1e999", TOO_LARGE),
    "thousands of digits": ("1" * 5000, TOO_LARGE),
    "two words": ("true false", INVALID),
    "a number and a word": ("1 true", INVALID),
    "part of a word": ("tru", INVALID),
    "two signs": ("--1", INVALID),
    "a sum": ("1 + 2", INVALID),
    "a product": ("60*60", INVALID),
    "a difference": ("3 - 1", INVALID),
    "an ellipsis": ("...", NO_VALUE),
    "dots": ("..", NO_VALUE),
    "a question mark": ("?", NO_VALUE),
    "a dash": ("-", NO_VALUE),
    "a star": ("*", NO_VALUE),
    "an angle": ("<object>", NO_VALUE),
    "a tuple": ("(1", NO_VALUE),
    "a page of text": ("x" * 1001, NO_VALUE),
    "a member": ("b: c", TWO_READINGS),
    "a key": ("b:", TWO_READINGS),
    "an assignment": ("b=", TWO_READINGS),
    "a statement": ("b;", TWO_READINGS),
    "a quote": ("b 'c'", TWO_READINGS),
    "a lost quote": ("b': 1", TWO_READINGS),
    "a call": ("f(x)", TWO_READINGS),
    "half of a call": ("date (2020", TWO_READINGS),
}


@for_each("text, reason", REJECTED.values())
def test_an_invalid_or_ambiguous_value_is_rejected(text, reason):
    whole = "[" + text + ","
    with pytest.raises(Unrepairable) as caught:
        read_bare_value(whole, 1, len(whole))
    assert (caught.value.problem, caught.value.position) == (reason, 1)


@for_each("text", ["1" * 5000 + ".", "1e999e", "-1e999."])
def test_a_number_that_is_too_large_is_rejected_even_if_it_is_cut_off(text):
    with pytest.raises(Unrepairable, match=TOO_LARGE):
        read_bare_value(text, 0, len(text))
