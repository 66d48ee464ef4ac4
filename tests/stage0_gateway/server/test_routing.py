import pytest

from stage0_gateway.server.routing import format_of
from stage0_gateway.wire import anthropic, gemini, openai, openai_responses


@pytest.mark.parametrize("wire", [openai, anthropic, gemini, openai_responses])
@pytest.mark.parametrize("stream", [True, False])
def test_the_path_of_each_wire_format_selects_its_server_format(wire, stream):
    room = format_of("/some/base" + wire.path("a/model:x", stream=stream))
    assert room is not None
    assert room.NAME == wire.NAME


@pytest.mark.parametrize("path", ["/v1/models", "/v1/embeddings", "/", ""])
def test_any_other_path_selects_no_server_format(path):
    assert format_of(path) is None
