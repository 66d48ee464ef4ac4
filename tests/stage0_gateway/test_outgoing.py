import json

import pytest

from stage0_gateway import ChatRequest, Message, ToolSpec
from stage0_gateway.models import resolve
from stage0_gateway.outgoing import outgoing, to_json


def test_a_body_is_compact_json_in_any_script():
    assert to_json({"a": "ü上", "b": 1}) == '{"a":"ü上","b":1}'.encode()


def test_half_of_a_surrogate_pair_is_written_as_json_writes_it():
    assert to_json({"a": "ü\ud83d"}) == b'{"a":"\\u00fc\\ud83d"}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1}, object(), b"bytes"])
def test_what_json_cannot_hold_is_a_value_error(value):
    with pytest.raises(ValueError, match="JSON"):
        to_json({"a": value})


def test_what_holds_itself_is_a_value_error():
    body: dict[str, object] = {}
    body["a"] = body
    with pytest.raises(ValueError, match="Circular"):
        to_json(body)


def test_what_is_nested_too_deeply_is_a_value_error():
    body: dict[str, object] = {}
    for _ in range(100_000):
        body = {"a": body}
    with pytest.raises(ValueError, match="recursion"):
        to_json(body)
    while body:  # taken apart by hand: freeing it in one go would nest as deeply
        body = body["a"]  # type: ignore[assignment]


@pytest.mark.parametrize("model", ["openai:m", "anthropic:m", "gemini:m"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_request_goes_where_its_model_is_in_its_models_format(model, stream):
    target = resolve(model)
    request = ChatRequest("m", (Message.user("hi"),))
    out = outgoing(target, request, stream=stream)
    assert out.url == (target.stream_url if stream else target.url)
    assert json.loads(out.body) == target.encode(request, stream=stream)
    assert ("stream" in json.loads(out.body)) is (stream and model != "gemini:m")


def test_names_a_provider_would_refuse_are_remembered():
    tools = (ToolSpec("weather.get", ""), ToolSpec("plain", ""))
    out = outgoing(resolve("openai:m"), ChatRequest("m", (), tools), stream=False)
    (sent,) = out.names
    assert out.names == {sent: "weather.get"}
    assert sent.startswith("weather_get_")


def test_a_request_shows_neither_the_query_nor_the_body():
    target = resolve("openai:m", "sk-secret", "https://u:sk-secret@host.test/v1?key=sk-secret")
    shown = repr(outgoing(target, ChatRequest("m", (Message.user("hi"),)), stream=True))
    assert "sk-secret" not in shown
    assert "body" not in shown
