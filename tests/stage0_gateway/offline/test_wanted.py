import pytest

from stage0_gateway.offline.wanted import FREE, Wanted, wanted
from stage0_gateway.offline.words import meanings, words_of

CITY = meanings("city")


def test_the_words_of_the_name_come_first_and_are_counted() -> None:
    words = (*words_of("from city"), *words_of("Where the trip starts."))
    assert wanted("tripCity", "Where it starts.", True) == Wanted(
        "tripCity", ("trip", "cit", "start"), True, 2
    )
    assert wanted("from_city", "Where the trip starts.", False) == Wanted("from_city", words, False, 1)


@pytest.mark.parametrize("name", ["a", "To", "的", "?", ""])
def test_a_name_without_a_telling_word_stands_for_itself(name: str) -> None:
    assert wanted(name, "", False) == Wanted(name, (name.lower(),), False, 1)


@pytest.mark.parametrize(
    ("name", "description", "is_called", "asks_for"),
    [
        ("city", "", True, True),
        ("homeCities", "", True, True),
        ("x", "City of birth", False, True),
        ("x", "Nearest big city", False, False),
        ("red_green_blue_city", "", True, True),
        ("red_green_blue", "city", False, False),
    ],
)
def test_a_parameter_is_called_by_its_name_and_asks_also_by_the_start_of_its_description(
    name: str, description: str, is_called: bool, asks_for: bool
) -> None:
    want = wanted(name, description, True)
    assert (want.is_called(CITY), want.asks_for(CITY)) == (is_called, asks_for)


def test_a_parameter_for_any_text_is_known_by_its_name() -> None:
    names = ["query", "searchText", "messages", "city", "unit"]
    assert [name for name in names if wanted(name, "", True).is_called(FREE)] == names[:3]


def test_a_name_and_a_description_without_end_are_read_only_so_far() -> None:
    want = wanted("ab " * 10_000, "cd " * 10_000, True)
    assert (want.own, len(want.words)) == (67, 67 + 167)
