from typing import Any

import pytest

from stage0_gateway.offline.numbers import bool_for, fits_range, hinted_numbers
from stage0_gateway.offline.pieces import Sheet
from stage0_gateway.offline.wanted import wanted


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("3 days for 2 guests", {"days": 3, "guests": 2}),
        ("guests=1, days: 2", {"guests": 1, "days": 2}),
        ("guests is 10, 5 days", {"guests": 10, "days": 5}),
        ("5 or 6 days", {"days": 6}),
        ("Nice days. 5 of them", {}),
        ("10 20", {}),
        ("7 friends for the party", {"guests": 7}),
        (f"days {'x ' * 20}5", {}),
    ],
)
def test_a_number_goes_to_the_parameter_named_next_to_it(text: str, numbers: dict[str, int]) -> None:
    wants = [wanted("days", "", True), wanted("guests", "How many friends", True)]
    hinted = hinted_numbers(wants, Sheet(text))
    assert {name: piece.number for name, piece in hinted.items()} == numbers


def test_a_number_is_given_once_and_rather_by_name_than_by_description() -> None:
    wants = [wanted("a", "Days of rest", True), wanted("days", "", True)]
    sheet = Sheet("3 days")
    assert hinted_numbers(wants, sheet) == {"days": sheet.pieces[0]}
    sheet.use(sheet.pieces[0])
    assert hinted_numbers(wants, sheet) == {}


def test_of_very_many_numbers_only_the_first_are_explained() -> None:
    wants = [wanted(f"n{index}", "", True) for index in range(70)]
    wants.append(wanted("days", "", True))
    assert hinted_numbers(wants, Sheet("1, " * 64 + "5 days")) == {}
    assert list(hinted_numbers(wants, Sheet("1, " * 63 + "5 days"))) == ["days"]


@pytest.mark.parametrize(
    ("number", "schema", "whole", "fits"),
    [
        (3, {"minimum": 3, "maximum": 3}, True, True),
        (2, {"minimum": 3}, False, False),
        (4, {"maximum": 3.5}, False, False),
        (0, {"minimum": 1, "maximum": "9"}, False, False),
        (0, {"minimum": "1", "maximum": None}, False, True),
        (2.5, {}, True, False),
        (2.5, {}, False, True),
        (1, {"minimum": 10**400}, False, False),
    ],
)
def test_a_number_keeps_to_its_range_and_a_range_of_no_numbers_is_none(
    number: float, schema: dict[str, Any], whole: bool, fits: bool
) -> None:
    assert fits_range(number, schema, whole) is fits


@pytest.mark.parametrize(
    ("text", "required", "optional"),
    [
        ("Play it loud", True, True),
        ("Play it, not loudly", False, False),
        ("It is not far away from here; play it loud", True, True),
        ("Play it", True, None),
        ("Don't play it", False, None),
        ("不要", False, None),
        ("Play it. Nothing more, notes off-hand known", False, None),
        ("Nothing known", True, None),
    ],
)
def test_a_yes_or_a_no_is_read_next_to_the_parameters_name(
    text: str, required: bool, optional: bool | None
) -> None:
    wants = [wanted("loud", "Whether the music plays", needed) for needed in (True, False)]
    assert [bool_for(want, text) for want in wants] == [required, optional]
