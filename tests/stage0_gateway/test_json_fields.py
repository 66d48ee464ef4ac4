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
from tests.tables import for_each


@for_each(
    "read, value, expected",
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
def test_a_value_of_the_right_type_is_returned_and_null_becomes_empty(
    read: Callable[[Any, str], Any], value: Any, expected: Any
) -> None:
    assert read(value, "x") == expected


@for_each(
    "read, value, expected",
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
def test_a_value_of_a_wrong_type_is_rejected_with_its_path_even_if_it_is_empty(
    read: Callable[[Any, str], Any], value: Any, expected: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared below
        read(value, "x")
    assert str(caught.value) == expected


def test_a_required_text_is_returned() -> None:
    assert required_text({"id": "call_1", "name": "add"}, "name", "tools[0]") == "add"


@for_each(
    "plain, expected",
    [
        ({}, "tools[0] needs a 'name'."),
        ({"name": None}, "tools[0] needs a 'name'."),
        ({"name": ""}, "tools[0] needs a 'name'."),
        ({"name": 3}, "tools[0].name must be text, not int."),
    ],
)
def test_a_missing_required_text_and_a_wrong_type_raise_different_errors(
    plain: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared below
        required_text(plain, "name", "tools[0]")
    assert str(caught.value) == expected


@for_each(
    "value, count",
    [(0, 0), (7, 7), (True, None), (7.0, 7), (7.5, None), ("7", None), (None, None)],
)
def test_only_a_whole_number_is_a_count_and_invalid_values_are_ignored(
    value: Any, count: int | None
) -> None:
    assert as_count(value) == count


@for_each("value", [True, 1.0, "1"])
def test_a_value_that_is_not_a_whole_number_is_rejected(value):
    assert (as_integer(3, "n"), as_integer(None, "n")) == (3, None)
    with pytest.raises(ValueError, match=f"n must be a whole number, not {type(value).__name__}."):
        as_integer(value, "n")
