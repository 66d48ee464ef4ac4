from hypothesis import given
from hypothesis import strategies as st

from stage2_output import nearest
from stage2_output.validation.suggestions import (
    printable,
)
from tests.tables import for_each


@for_each(
    "name, near",
    [
        ("locaton", "Location"),
        ("UNIT", "unit"),
        ("zzz", None),
        ("", None),
        ("lo", None),
    ],
)
def test_nearest_returns_the_most_similar_name(name, near):
    assert nearest(name, ["Location", "unit", ""]) == near
    assert nearest(name, []) is None


@for_each(
    "name, near",
    [
        ("input_date", "date"),
        ("seats", "number_of_seats"),
        ("p_value", "p"),
        ("a page of prose", None),
        ("city", None),
        ("to_city", "to_city_name"),
    ],
)
def test_a_name_is_similar_to_the_only_one_with_more_or_fewer_words(name, near):
    known = ["date", "number_of_seats", "p", "a", "to_city_name", "from_city_name", "from_country"]
    assert nearest(name, known) == near


@for_each("name, other", [("zebra", "brand"), ("ocean", "location"), ("water", "date")])
def test_words_that_share_some_letters_are_not_similar(name, other):
    assert nearest(name, [other]) is None


def test_a_number_has_no_similar_name():
    assert nearest("2009", ["2010", "2019", "200 m"]) is None


def test_a_name_that_differs_only_in_case_is_the_most_similar():
    assert nearest("NAMES", ["name", "names", "named"]) == "names"


def test_the_name_with_the_same_order_of_letters_is_the_most_similar():
    assert nearest("strat_date", ["date_start", "start_date"]) == "start_date"


def test_very_long_names_are_compared_by_their_beginning():
    page = "x" * 1_000_000
    assert nearest(page + "a", [page + "b"]) == page + "b"


def test_a_name_that_differs_only_in_case_is_found_among_thousands():
    assert nearest("NAME 9000", (f"name {number}" for number in range(10_000))) == "name 9000"


@for_each(
    "text, expected",
    [
        ("plain", "plain"),
        ("one\ntwo\tthree\u2028four", "one two three four"),
        ("bell\x07, surrogate \ud800, reversed \u202e", "bell�, surrogate �, reversed �"),
        ("123456789" * 7, "123456789" * 6 + "12345…"),
        ("Größe 尺寸 👍", "Größe 尺寸 👍"),
    ],
)
def test_a_text_is_printed_on_one_line_without_unprintable_characters(text, expected):
    assert printable(text, 60) == expected


@given(st.text(), st.integers(2, 50))
def test_printable_texts_can_be_encoded_and_have_a_limited_length(text, most):
    printed = printable(text, most)
    assert printed.isprintable()
    assert len(printed) <= most
    printed.encode()
