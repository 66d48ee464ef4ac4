from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from stage0_gateway.json_fields import (
    as_count,
    as_integer,
    as_list,
    as_mapping,
    as_number,
    as_text,
    required_text,
)


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (as_mapping, {"a": 1}, {"a": 1}),
        (as_mapping, MappingProxyType({"a": 1}), {"a": 1}),
        (as_list, [1, None], [1, None]),
        (as_list, None, []),
        (as_text, " x ", " x "),
        (as_text, None, ""),
        (as_number, 0, 0),
        (as_number, -2.5, -2.5),
        (as_number, None, None),
    ],
)
def test_a_value_of_the_right_type_stays_as_it_is_and_null_is_nothing(
    read: Callable[[Any, str], Any], value: Any, expected: Any
) -> None:
    assert read(value, "x") == expected


@pytest.mark.parametrize(
    ("read", "value", "said"),
    [
        (as_mapping, None, "x must be a JSON object, not NoneType."),
        (as_mapping, [("a", 1)], "x must be a JSON object, not list."),
        (as_list, "ab", "x must be a list, not str."),
        (as_list, {}, "x must be a list, not dict."),
        (as_list, (), "x must be a list, not tuple."),
        (as_text, b"ab", "x must be text, not bytes."),
        (as_text, 0, "x must be text, not int."),
        (as_number, "3", "x must be a number, not str."),
        (as_number, True, "x must be a number, not bool."),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_place_even_when_it_is_empty(
    read: Callable[[Any, str], Any], value: Any, said: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared below
        read(value, "x")
    assert str(caught.value) == said


def test_a_needed_text_is_the_text_of_its_field() -> None:
    assert required_text({"id": "call_1", "name": "add"}, "name", "tools[0]") == "add"


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({}, "tools[0] needs a 'name'."),
        ({"name": None}, "tools[0] needs a 'name'."),
        ({"name": ""}, "tools[0] needs a 'name'."),
        ({"name": 3}, "tools[0].name must be text, not int."),
    ],
)
def test_a_needed_text_that_is_not_there_is_told_from_one_of_another_type(
    plain: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared below
        required_text(plain, "name", "tools[0]")
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("value", "count"),
    [(0, 0), (7, 7), (True, None), (7.0, 7), (7.5, None), ("7", None), (None, None)],
)
def test_only_a_whole_number_is_a_count_and_nothing_is_refused(
    value: Any, count: int | None
) -> None:
    assert as_count(value) == count


@pytest.mark.parametrize("value", [True, 1.0, "1"])
def test_a_whole_number_is_an_int_or_null(value):
    assert (as_integer(3, "n"), as_integer(None, "n")) == (3, None)
    with pytest.raises(ValueError, match=f"n must be a whole number, not {type(value).__name__}."):
        as_integer(value, "n")
