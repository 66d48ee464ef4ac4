import copy
import dataclasses
import gc
import pickle
import weakref

import pytest

from stage0_gateway import ChatRequest, Message, TextPart, ToolCall
from stage0_gateway.http.encode import encode_request
from stage0_gateway.http.endpoint import resolve
from tests.tables import for_each


def test_an_encoding_is_computed_once_for_each_format():
    encoded = []
    message = Message.user("hi")
    for form in ("a", "a", "b", "a"):
        assert message.encoded(form, lambda it: encoded.append(it) or len(encoded)) == 1 + (
            form == "b"
        )
    assert encoded == [message, message]


def test_a_failed_encoding_is_not_cached():
    message = Message.user("hi")
    with pytest.raises(ZeroDivisionError):
        message.encoded("a", lambda it: 1 / 0)
    assert message.encoded("a", lambda it: "encoded") == "encoded"


@for_each(
    "copied",
    [
        # copy
        copy.copy,
        # deepcopy
        copy.deepcopy,
        # pickle
        lambda message: pickle.loads(pickle.dumps(message)),
        # replace
        dataclasses.replace,
        # to_dict
        lambda message: Message.from_dict(message.to_dict()),
    ],
)
def test_the_cached_encoding_is_not_part_of_the_message(copied):
    message, other = Message.user("hi"), Message.user("hi")
    message.encoded("a", lambda it: "kept")
    assert message == other
    for shown in (repr, hash, Message.to_dict, dataclasses.asdict):
        assert shown(message) == shown(other)
    assert copied(message) == message
    assert message.encoded("a", lambda it: "new") == "kept"
    assert copied(message).encoded("a", lambda it: "new") == "new"


def test_a_message_with_a_cached_encoding_stays_frozen():
    message = Message.user("hi")
    message.encoded("a", repr)
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.content = "ho"


class ProviderFields(dict):
    """A mapping that weak references can observe."""


def test_a_cached_encoding_keeps_no_message_of_another_exchange_alive():
    fields = ProviderFields()
    call = ToolCall("c", "f")
    messages = (
        Message.user("hi"),
        Message.assistant("", [call]),
        Message.tool((TextPart("a result", provider_data=fields),), "c"),
    )
    encode_request(resolve("openai:m"), ChatRequest("m", messages), stream=False)
    first, observed = messages[0], weakref.ref(fields)
    gc.disable()  # objects must be freed without a collection of cycles
    try:
        del fields, messages
        assert (observed(), first.role) == (None, "user")
    finally:
        gc.enable()
