import pytest

from stage0_gateway.server.routing import format_of
from stage0_gateway.wire import anthropic, gemini, openai


@pytest.mark.parametrize("wire", [openai, anthropic, gemini])
@pytest.mark.parametrize("stream", [True, False])
def test_the_path_that_a_wire_format_posts_to_leads_to_its_room(wire, stream):
    room = format_of("/some/base" + wire.path("a/model:x", stream=stream))
    assert room is not None
    assert room.NAME == wire.NAME


@pytest.mark.parametrize("path", ["/v1/models", "/v1/embeddings", "/", ""])
def test_any_other_path_leads_nowhere(path):
    assert format_of(path) is None
