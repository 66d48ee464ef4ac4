import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.messages import Message
from stage0_gateway.request import ChatRequest
from stage0_gateway.server.decoding import (
    as_integer,
    deep_diff,
    extra_data,
    with_options,
)
from stage0_gateway.wire.provider_data import deep_merge

VALUE = (
    st.integers()
    | st.text()
    | st.dictionaries(st.sampled_from("xyz"), st.integers(), min_size=1, max_size=3)
)
FIELDS = st.dictionaries(st.sampled_from("abcd"), VALUE, max_size=4)


@given(FIELDS, FIELDS)
def test_the_left_over_fields_laid_over_the_written_ones_give_the_whole(whole, more):
    written = {name: more[name] for name in more if name in whole}
    for name, value in written.items():  # nothing can be laid over a field so that it goes away
        if isinstance(value, dict) and isinstance(whole[name], dict):
            written[name] = {key: one for key, one in value.items() if key in whole[name]}
    assert deep_merge(dict(written), deep_diff(whole, written)) == whole


def test_no_field_is_left_over_that_was_written_or_is_null():
    assert deep_diff({"a": 1, "b": None, "c": {"d": 2}}, {"a": 1, "c": {"d": 2}}) == {}
    assert extra_data("openai", {"a": 1}, {"a": 1}) is None
    assert extra_data("openai", {"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 2}}) == {
        "openai": {"a": 1, "b": {"d": 3}}
    }


def test_options_hold_the_difference_between_a_body_and_the_request_encoded_again():
    def encode(request):
        assert request.messages == ()  # they are long, and not compared
        return {"model": request.model, "temperature": request.temperature}

    request = ChatRequest("m", (Message.user("hi"),), temperature=0.5)
    body = {
        "model": "m",
        "temperature": 0.5,
        "messages": ["hi"],
        "seed": 1,
        "tools": [{"type": "search"}],
    }
    read = with_options(request, body, encode, {"messages"})
    assert read == ChatRequest(
        "m",
        (Message.user("hi"),),
        temperature=0.5,
        provider_options={"seed": 1, "tools": [{"type": "search"}]},
    )
    assert with_options(request, {"model": "m", "temperature": 0.5}, encode, ()) == request


@pytest.mark.parametrize("value", [True, 1.0, "1"])
def test_a_whole_number_is_an_int_or_null(value):
    assert (as_integer(3, "n"), as_integer(None, "n")) == (3, None)
    with pytest.raises(ValueError, match=f"n must be a whole number, not {type(value).__name__}."):
        as_integer(value, "n")
