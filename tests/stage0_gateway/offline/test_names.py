import pytest

from stage0_gateway.offline.names import find_name, is_name_like
from stage0_gateway.offline.pieces import Sheet
from stage0_gateway.offline.wanted import wanted
from stage0_gateway.offline.words import meanings


def named(name: str, text: str, *, required: bool = True, subject: str = "") -> str | None:
    return find_name(wanted(name, "", required), Sheet(text), meanings(subject))


@pytest.mark.parametrize(
    ("name", "description", "is_name"),
    [
        ("city", "", True),
        ("userName", "", True),
        ("x", "The city to look at", True),
        ("count", "", False),
        ("query", "", False),
        ("search_city", "", False),
    ],
)
def test_a_parameter_is_a_name_unless_it_takes_any_text(name: str, description: str, is_name: bool) -> None:
    assert is_name_like(wanted(name, description, True)) is is_name


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("city", "Ada asks about Bob, in Rome", "Rome"),
        ("person", "Say hello to Ada in Rome", "Ada"),
        ("person", "In Rome, say hello to Ada", "Ada"),
        ("to_city", "from Rome to Oslo", "Oslo"),
        ("source", "to Oslo from Rome", "Rome"),
        ("person", 'Ring "rex"', "rex"),
        ("thing", "Oslo", None),
    ],
)
def test_the_word_before_a_name_says_which_parameter_it_fits(name: str, text: str, found: str | None) -> None:
    assert named(name, text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [("Take a train in Oslo", "Oslo"), ("Ada asks", None), ('in "oslo"', None), ("in oslo", None)],
)
def test_an_optional_parameter_takes_only_a_clear_fit(text: str, found: str | None) -> None:
    assert named("city", text, required=False) == found


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("city", "weather in new york today", "new york"),
        ("city", "is it raining in the oslo?", "oslo"),
        ("person", "weather in oslo", None),
    ],
)
def test_a_place_written_small_is_known_by_where_it_stands(name: str, text: str, found: str | None) -> None:
    assert named(name, text) == found


def test_a_name_made_of_the_tools_own_words_comes_last() -> None:
    text = "ask the Weather App about Oslo"
    assert (named("person", text, subject="weather"), named("person", text)) == ("Oslo", "Weather App")


def test_a_name_is_given_once() -> None:
    sheet, want = Sheet("in Oslo and in Rome"), wanted("city", "", True)
    assert [find_name(want, sheet, frozenset()) for _ in range(2)] == ["Oslo", "Rome"]
    assert sheet.free("name") == []
