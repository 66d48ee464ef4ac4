"""Random values for the tests, and the number of them."""

import functools
import inspect

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def random_examples(few, many, *strategies):
    """Run a test with a few random examples, and with many of them in `make test-long`."""

    def decorate(test):
        @functools.wraps(test, updated=())
        def run(examples):
            settings(max_examples=examples)(given(*strategies)(test))()

        examples = inspect.Parameter("examples", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = inspect.Signature([examples])
        sizes = [few, pytest.param(many, marks=pytest.mark.long)]
        return pytest.mark.parametrize("examples", sizes)(run)

    return decorate


def json_values(texts):
    """Return a strategy of JSON values, whose texts and keys come from another strategy."""
    floats = st.floats(allow_nan=False, allow_infinity=False)
    return st.recursive(
        st.none() | st.booleans() | st.integers() | floats | texts,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=8,
    )
