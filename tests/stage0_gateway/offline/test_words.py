import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.offline.words import meaning, meanings, says_nothing, stem, word_set, words_of


def test_names_and_sentences_are_split_into_the_same_words() -> None:
    assert words_of("getWeatherForecasts") == words_of("get the weather_forecast")
    assert words_of("Calculations of the movies") == words_of("calculate movie")


@pytest.mark.parametrize(
    ("word", "stemmed"),
    [
        ("Calculation", "calcul"),
        ("calculates", "calcul"),
        ("cities", "cit"),
        ("city", "cit"),
        ("uses", "use"),
        ("ate", "ate"),
        ("News", "news"),
        ("new", "new"),
    ],
)
def test_an_ending_is_cut_where_three_letters_are_left(word: str, stemmed: str) -> None:
    assert stem(word) == stemmed


def test_words_of_one_meaning_meet() -> None:
    assert meanings("hot Rainy forecasts weather 天气") == {meaning("weather")}
    assert meanings("purchase") == meanings("buying") != meanings("sell")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("getHTTPResponse", ["get", "http", "respons"]),
        ("What is 3 + 4?", ["calcul"]),
        ("3 times 4", ["calcul"]),
        ("a 3-4 day trip on 2024-05-01", ["3", "4", "day", "trip", "2024", "05", "01"]),
        ("北京天气", ["weath", "北京", "京天", "天气"]),
        ("Please show me what it is", []),
    ],
)
def test_the_telling_words_of_a_text_are_kept_in_order(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("word", "is_empty"),
    [("What's", True), ("please,", True), ("Weathers?", True), ("Oslo", False), ("whatever", False)],
)
def test_a_word_that_only_asks_or_names_the_subject_says_nothing(word: str, is_empty: bool) -> None:
    assert says_nothing(word, meanings("weather")) is is_empty


def test_a_set_of_words_is_written_as_people_write_them() -> None:
    assert word_set("a  b\nb") == {"a", "b"}


@given(st.text(alphabet=st.characters() | st.sampled_from("aeS1 +-_'天气")))
def test_every_word_of_any_text_is_short_and_whole(text: str) -> None:
    # Forty characters of the text; some become two in lower case.
    assert [word for word in words_of(text) if not re.fullmatch(r"[^_\s]{1,80}", word)] == []


def test_a_word_without_end_is_taken_in_pieces() -> None:
    assert words_of("x" * 100_000) == ["x" * 40] * 2_500
