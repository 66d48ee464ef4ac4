from stage0_gateway.server.routing import format_of
from tests.stage0_gateway.server.formats import (
    ANTHROPIC,
    FORMATS,
    GEMINI,
    OPENAI,
    OPENAI_RESPONSES,
)
from tests.tables import for_each

SERVERS = [form.server for form in FORMATS]


@for_each("stream", [True, False])
@for_each("form", FORMATS)
def test_the_path_of_each_wire_format_selects_its_server_format(form, stream):
    assert format_of("/some/base" + form.wire.path("a/model:x", stream=stream)) is form.server


@for_each(
    "path, form",
    [
        ("/v1/chat/completions", OPENAI),
        ("/openai/deployments/x/chat/completions?api-version=1", OPENAI),
        ("/v1/messages", ANTHROPIC),
        ("/v1/messages?beta=true", ANTHROPIC),
        ("/v1beta/models/gemini-x:generateContent", GEMINI),
        ("/v1/projects/p/models/g:streamGenerateContent?alt=sse", GEMINI),
        ("/v1/responses", OPENAI_RESPONSES),
        ("/openai/v1/responses/?api-version=1", OPENAI_RESPONSES),
    ],
)
def test_a_path_belongs_to_one_format(path, form):
    assert [server for server in SERVERS if server.is_path(path)] == [form.server]


@for_each(
    "path",
    [
        *("", "/", "/v1/completions", "/v1/embeddings", "/v1/models", "/v1/responses/resp_1"),
        *("/v1/messages/count_tokens", "/v1beta/models", "/v1beta/models/x:countTokens"),
    ],
)
def test_any_other_path_selects_no_server_format(path):
    assert format_of(path) is None
