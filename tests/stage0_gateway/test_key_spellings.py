"""A key is hidden in every spelling: in errors, reprs, events, and the variables of tracebacks."""

import asyncio
import html
import json
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stage0_gateway
from stage0_gateway import (
    ConfigurationError,
    Gateway,
    GatewayError,
    Message,
    Recorder,
    ScriptedModel,
    ScriptError,
)

ASK = [Message.user("hi")]
PACKAGE = str(Path(stage0_gateway.__file__).parent)
KEYS = st.text(st.characters(codec="ascii", exclude_categories=["Cc", "Zs"]), min_size=9).map(
    "sk-Q7/x".__add__
)
SPELLINGS = {
    "as it is": str,
    "JSON": lambda key: json.dumps(key)[1:-1],
    "JSON with escaped slashes": lambda key: json.dumps(key)[1:-1].replace("/", r"\/"),
    "JSON escapes only": lambda key: "".join(f"\\u{ord(each):04X}" for each in key),
    "URL": lambda key: quote(key, safe=""),
    "URL escapes only": lambda key: "".join(f"%{ord(each):02x}" for each in key),
    "URL within a URL": lambda key: quote(quote(key, safe=""), safe=""),
    "HTML": html.escape,
    "HTML numbers": lambda key: "".join(f"&#{ord(each)};" for each in key),
}
MODELS = ("openai:m", "anthropic:m", "gemini:m", "openai-responses:m")


def event(value):
    return f"data: {json.dumps(value)}\n\n"


def begun(model, echo):
    """Return the beginning of a stream whose metadata repeats the key."""
    return {
        "openai:m": event({"id": echo, "model": echo, "choices": [{"delta": {"content": "y"}}]}),
        "anthropic:m": event({"type": "message_start", "message": {"id": echo, "model": echo}}),
        "gemini:m": event(
            {"responseId": echo, "modelVersion": echo, "candidates": [{"content": {}}]}
        ),
        "openai-responses:m": event(
            {"type": "response.created", "response": {"id": echo, "model": echo}}
        ),
    }[model]


def complete(model, echo):
    """Return a whole reply whose metadata repeats the key."""
    return {
        "openai:m": {
            "id": echo,
            "model": echo,
            "choices": [{"message": {"content": "y", "refusal": echo}, "finish_reason": echo}],
        },
        "anthropic:m": {"id": echo, "model": echo, "content": [], "stop_reason": echo},
        "gemini:m": {
            "responseId": echo,
            "modelVersion": echo,
            "promptFeedback": {"blockReason": echo, "blockReasonMessage": echo},
            "candidates": [{"finishReason": echo}],
        },
        "openai-responses:m": {
            "id": echo,
            "model": echo,
            "incomplete_details": {"reason": echo},
            "output": [{"type": "message", "content": [{"type": "refusal", "refusal": echo}]}],
        },
    }[model]


def answers(model, echo):
    """Return possible answers of a server; an exception is raised by the transport."""
    error = {"error": {"message": f"Invalid key {echo}", "type": echo, echo: echo}}
    return {
        "a refusal": httpx.Response(401, json=error),
        "a long refusal": httpx.Response(400, json={"error": {"message": "x" * 3990 + echo}}),
        "a page": httpx.Response(502, text=f"<p>{echo}</p>"),
        "an error with status 200": httpx.Response(200, json=error),
        "another format": httpx.Response(
            200, json={"choices": {echo: echo}, "candidates": echo, "type": 5}
        ),
        "not JSON": httpx.Response(200, text=f"{{{echo}"),
        "a reply": httpx.Response(200, json=complete(model, echo)),
        "an error in a stream": httpx.Response(200, text=begun(model, echo) + event(error)),
        "half a stream": httpx.Response(200, text=begun(model, echo) + f"data: {echo}"),
        "another format in a stream": httpx.Response(
            200, text=begun(model, echo) + event({"choices": [echo]})
        ),
        "a broken connection": httpx.ReadError(f"reset while sending {echo}"),
        "an error of the transport": RuntimeError("a bug"),
    }


def texts_of(error):
    """Return all texts of an error and of its causes, with the variables of the package's frames."""
    texts = [str(error), repr(error)]
    report = traceback.TracebackException.from_exception(error, capture_locals=True)
    while report is not None:
        texts += report.format_exception_only()
        for frame in report.stack:
            if frame.filename.startswith(PACKAGE):
                texts += [
                    f"{frame.name}: {name} = {value}"
                    for name, value in (frame.locals or {}).items()
                ]
        report = report.__cause__ or report.__context__
    return texts


async def texts_of_request(model, key, answer, ask, folder):
    """Return all texts that a request shows."""

    def respond(request):
        if isinstance(answer, Exception):
            raise answer
        return answer

    texts = []
    recorder = Recorder(Path(folder) / "recording", httpx.MockTransport(respond), secrets=[key])
    gateway = Gateway(
        model,
        api_key=key,
        base_url="https://host.test/v1?key=" + quote(key, safe=""),
        transport=recorder,
        max_retries=0,
        on_event=lambda event: texts.append(repr(event)),
    )
    try:
        if ask == "chat":
            response = await gateway.chat(ASK)
        else:
            stream = gateway.stream(ASK)
            async for each in stream:
                texts.append(repr(each))
            response = await stream.final_message()
        texts.append(repr(response))
    except (GatewayError, RuntimeError) as error:
        texts += texts_of(error)
    return [*texts, repr(gateway), (Path(folder) / "recording").read_text()]


@pytest.mark.parametrize("examples", [15, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("ask", ["chat", "stream"])
def test_a_key_is_hidden_in_every_spelling(model, ask, examples):
    @settings(max_examples=examples)
    @given(key=KEYS, data=st.data())
    def judge(key, data):
        check_that_a_key_is_hidden(model, ask, key, data)

    judge()


def check_that_a_key_is_hidden(model, ask, key, data):
    echo = data.draw(st.sampled_from(sorted(SPELLINGS)).map(lambda name: SPELLINGS[name](key)))
    answer = data.draw(st.sampled_from([*answers(model, echo).values()]))
    with TemporaryDirectory() as folder:
        texts = asyncio.run(texts_of_request(model, key, answer, ask, folder))
    spelled = {spell(key) for spell in SPELLINGS.values()}
    assert [text for text in texts for each in spelled if each in text] == []


@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS)
async def test_a_key_that_the_server_or_the_gateway_truncates_is_hidden(spell):
    key = "sk-Q7/x12345+67890abcdef"
    for message in (
        "bad key " + spell(key[:-4]),
        "x" * 3980 + spell(key),
        "x" * 3990 + " " + spell(key),
    ):
        answer = httpx.Response(400, json={"error": {"message": message}})
        gateway = Gateway(
            "openai:m", api_key=key, transport=httpx.MockTransport(lambda r, a=answer: a)
        )
        with pytest.raises(GatewayError) as caught:
            await gateway.chat(ASK)
        assert spell(key[:8]) not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "https://me:sk-Q7-secret/x@host.test"},
        {"base_url": "me:sk-Q7-secret@host.test"},
        {"api_key": "sk-Q7-secret with a space"},
        {
            "api_key": {"openai": "sk-Q7-secret", "gemini": "sk-Q7-secret"},
            "fallback_models": ["odd:m"],
        },
        {"api_key": "sk-Q7-secret", "max_retries": -1},
        {"api_key": "sk-Q7-secret", "fallback_models": ["anthropic:m"]},
    ],
    ids=["port", "scheme", "key", "fallback model", "option", "missing key"],
)
def test_invalid_settings_are_rejected_without_showing_a_key(options):
    for make in Gateway, Gateway.from_env:
        with pytest.raises(ConfigurationError) as caught:
            make("openai:m", **options)
        assert [text for text in texts_of(caught.value) if "sk-Q7" in text] == []


async def test_a_failing_transport_behind_a_recorder_shows_no_key(tmp_path):
    recorder = Recorder(tmp_path / "recording", ScriptedModel([]))
    options = {"api_key": "sk-Q7-secret", "base_url": "https://host.test/v1?key=sk-Q7-query"}
    with pytest.raises(ScriptError) as caught:
        await Gateway("openai:m", transport=recorder, **options).chat(ASK)
    assert [text for text in texts_of(caught.value) if "sk-Q7" in text] == []


async def test_a_failing_listener_shows_no_key():
    def fail(event):
        raise ZeroDivisionError

    echo = httpx.Response(200, text=begun("openai:m", "sk-Q7-secret") + "data: [DONE]\n\n")
    gateway = Gateway(
        "openai:m", api_key="sk-Q7-secret", transport=httpx.MockTransport(lambda request: echo)
    )
    for name in ("stream_event", "text", "final_message"):
        with pytest.raises(ZeroDivisionError) as caught:
            await gateway.stream(ASK).on(name, fail).final_message()
        assert [text for text in texts_of(caught.value) if "sk-Q7" in text] == []
