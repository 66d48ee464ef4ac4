from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from stage2_output import CompiledSchema
from stage2_output.validation.json_values import frozen
from tests.tables import for_each

SCALARS = [
    None,
    True,
    False,
    0,
    1,
    2,
    0.0,
    -0.0,
    1.0,
    1.5,
    2**53,
    2.0**53,
    2**53 + 1,
    10**400,
    "",
    "1",
    "a",
]
NESTED = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)


def equal(one, two):
    """Equality as JSON Schema defines it (reference implementation)."""
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(equal, one, two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(equal(one[name], two[name]) for name in one)
    return one == two


@for_each(
    "one, two, same",
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (0.0, -0.0, True),
        (1, "1", False),
        (None, False, False),
        ([], {}, False),
        ([], None, False),
        ([1, [True]], [1.0, [True]], True),
        ([[1]], [[True]], False),
        ([1, 2], [2, 1], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, [["a", 1]], False),
        (2**53 + 1, 2.0**53, False),
    ],
)
def test_frozen_values_are_equal_as_json_schema_defines(one, two, same):
    assert (frozen(one) == frozen(two)) is same


@given(NESTED, NESTED)
def test_frozen_values_are_equal_if_and_only_if_the_values_are(one, two):
    assert (frozen(one) == frozen(two)) is equal(one, two)


def test_frozen_distinguishes_every_pair_of_different_scalars():
    assert [
        pair for pair in product(SCALARS, repeat=2) if len({*map(frozen, pair)}) == 1 + equal(*pair)
    ] == []


@given(st.lists(NESTED, max_size=5))
def test_items_are_unique_if_no_two_of_them_are_equal(items):
    pairs = [(one, two) for place, one in enumerate(items) for two in items[:place]]
    assert CompiledSchema({"uniqueItems": True}).fits(items) is not any(
        equal(*pair) for pair in pairs
    )
