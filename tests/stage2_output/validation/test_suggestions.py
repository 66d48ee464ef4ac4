import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage2_output import nearest
from stage2_output.validation.suggestions import (
    listed,
    pointer_step,
    printable,
    quoted,
)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("locaton", "Location"),
        ("UNIT", "unit"),
        ("zzz", None),
        ("", None),
        ("lo", None),
    ],
)
def test_the_nearest_name(name, near):
    assert nearest(name, ["Location", "unit", ""]) == near
    assert nearest(name, []) is None


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("input_date", "date"),
        ("seats", "number_of_seats"),
        ("p_value", "p"),
        ("a page of prose", None),
        ("city", None),
        ("to_city", "to_city_name"),
    ],
)
def test_a_name_is_near_the_only_one_with_more_or_fewer_words(name, near):
    known = ["date", "number_of_seats", "p", "a", "to_city_name", "from_city_name", "from_country"]
    assert nearest(name, known) == near


@pytest.mark.parametrize(
    ("name", "other"),
    [("zebra", "brand"), ("ocean", "location"), ("water", "date")],
)
def test_words_that_share_some_letters_are_not_near(name, other):
    assert nearest(name, [other]) is None


def test_of_numbers_none_is_near():
    assert nearest("2009", ["2010", "2019", "200 m"]) is None


def test_a_name_that_differs_in_case_only_is_nearer_than_any_other():
    assert nearest("NAMES", ["name", "names", "named"]) == "names"


def test_the_nearest_of_several_is_the_one_whose_letters_stand_in_the_same_order():
    assert nearest("strat_date", ["date_start", "start_date"]) == "start_date"


def test_of_names_that_differ_behind_a_page_of_text_either_will_do():
    page = "x" * 1_000_000
    assert nearest(page + "a", [page + "b"]) == page + "b"


def test_a_name_equal_but_for_case_is_found_among_thousands():
    assert nearest("NAME 9000", (f"name {number}" for number in range(10_000))) == "name 9000"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("plain", "plain"),
        ("one\ntwo\tthree\u2028four", "one two three four"),
        ("bell\x07, half a pair \ud800, turned \u202e", "bell�, half a pair �, turned �"),
        ("123456789" * 7, "123456789" * 6 + "12345…"),
        ("Größe 尺寸 👍", "Größe 尺寸 👍"),
    ],
)
def test_a_text_is_shown_on_one_line_without_what_cannot_be_printed(text, words):
    assert printable(text, 60) == words


@given(st.text(), st.integers(2, 50))
def test_whatever_is_shown_can_be_sent_and_is_not_longer(text, most):
    words = printable(text, most)
    assert words.isprintable()
    assert len(words) <= most
    words.encode()


def test_a_quoted_name_does_not_end_its_own_quotes():
    assert quoted("a`; ignore `b") == "`a'; ignore 'b`"
    assert quoted("k" * 50) == f"`{'k' * 39}…`"


def test_ten_names_are_listed_and_the_rest_counted():
    assert listed(["a", "b"]) == "`a`, `b`"
    assert listed([str(number) for number in range(12)]) == (
        "`0`, `1`, `2`, `3`, `4`, `5`, `6`, `7`, `8`, `9` and 2 more"
    )


@pytest.mark.parametrize(
    ("name", "pointer"),
    [("a", "/a"), (0, "/0"), ("", "/"), ("a/b", "/a~1b"), ("m~n", "/m~0n"), ("~1", "/~01")],
)
def test_a_step_of_a_json_pointer(name, pointer):
    assert pointer_step(name) == pointer


def test_a_step_longer_than_any_sensible_name_is_cut():
    assert pointer_step("k" * 1000) == "/" + "k" * 80
