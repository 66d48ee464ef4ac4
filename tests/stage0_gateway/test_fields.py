from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from stage0_gateway.fields import a_count, a_list, a_mapping, a_number, a_text, needed_text


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (a_mapping, {"a": 1}, {"a": 1}),
        (a_mapping, MappingProxyType({"a": 1}), {"a": 1}),
        (a_list, [1, None], [1, None]),
        (a_list, None, []),
        (a_text, " x ", " x "),
        (a_text, None, ""),
        (a_number, 0, 0),
        (a_number, -2.5, -2.5),
        (a_number, None, None),
    ],
)
def test_a_value_of_the_right_type_stays_as_it_is_and_null_is_nothing(
    read: Callable[[Any, str], Any], value: Any, expected: Any
) -> None:
    assert read(value, "x") == expected


@pytest.mark.parametrize(
    ("read", "value", "said"),
    [
        (a_mapping, None, "x must be a JSON object, not NoneType."),
        (a_mapping, [("a", 1)], "x must be a JSON object, not list."),
        (a_list, "ab", "x must be a list, not str."),
        (a_list, {}, "x must be a list, not dict."),
        (a_list, (), "x must be a list, not tuple."),
        (a_text, b"ab", "x must be text, not bytes."),
        (a_text, 0, "x must be text, not int."),
        (a_number, "3", "x must be a number, not str."),
        (a_number, True, "x must be a number, not bool."),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_place_even_when_it_is_empty(
    read: Callable[[Any, str], Any], value: Any, said: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared below
        read(value, "x")
    assert str(caught.value) == said


def test_a_needed_text_is_the_text_of_its_field() -> None:
    assert needed_text({"id": "call_1", "name": "add"}, "name", "tools[0]") == "add"


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
        needed_text(plain, "name", "tools[0]")
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("value", "count"),
    [(0, 0), (7, 7), (True, None), (7.0, 7), (7.5, None), ("7", None), (None, None)],
)
def test_only_a_whole_number_is_a_count_and_nothing_is_refused(
    value: Any, count: int | None
) -> None:
    assert a_count(value) == count
