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
    Recorder,
    ScriptedModel,
    ScriptError,
)
from tests.stage0_gateway.replies import DONE, candidate, chunk, completion, event, failure
from tests.stage0_gateway.requests import METHODS, MODELS, QUESTION
from tests.stage0_gateway.servers import Answers
from tests.tables import for_each

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


def start_of_stream(model, echo):
    """Return the first event of a stream whose metadata repeats the key."""
    metadata = {"id": echo, "model": echo}
    starts = {
        "openai:m": {**metadata, **chunk(content="y")},
        "anthropic:m": {"type": "message_start", "message": metadata},
        "gemini:m": {"responseId": echo, "modelVersion": echo, **candidate()},
        "openai-responses:m": {"type": "response.created", "response": metadata},
    }
    return event(starts[model])


def whole_reply(model, echo):
    """Return a whole reply whose metadata repeats the key."""
    metadata = {"id": echo, "model": echo}
    replies = {
        "openai:m": {**metadata, **completion("y", echo, refusal=echo)},
        "anthropic:m": {**metadata, "content": [], "stop_reason": echo},
        "gemini:m": {
            "responseId": echo,
            "modelVersion": echo,
            "promptFeedback": {"blockReason": echo, "blockReasonMessage": echo},
            "candidates": [{"finishReason": echo}],
        },
        "openai-responses:m": {
            **metadata,
            "incomplete_details": {"reason": echo},
            "output": [{"type": "message", "content": [{"type": "refusal", "refusal": echo}]}],
        },
    }
    return replies[model]


def answers(model, echo):
    """Return possible answers of a server."""
    error = {"error": {"message": f"Invalid key {echo}", "type": echo, echo: echo}}
    start = start_of_stream(model, echo)
    return {
        "a refusal": httpx.Response(401, json=error),
        "a long refusal": httpx.Response(400, json=failure("x" * 3990 + echo)),
        "a page": httpx.Response(502, text=f"<p>{echo}</p>"),
        "an error with status 200": error,
        "another format": {"choices": {echo: echo}, "candidates": echo, "type": 5},
        "not JSON": httpx.Response(200, text=f"{{{echo}"),
        "a reply": whole_reply(model, echo),
        "an error in a stream": [start + event(error)],
        "half a stream": [start + f"data: {echo}".encode()],
        "another format in a stream": [start + event({"choices": [echo]})],
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


async def texts_of_request(model, key, answer, method):
    """Return all texts that a request shows."""
    texts = []
    with TemporaryDirectory() as folder:
        recording = Path(folder) / "recording"
        gateway = Gateway(
            model,
            api_key=key,
            base_url="https://host.test/v1?key=" + quote(key, safe=""),
            transport=Recorder(recording, Answers(answer), secrets=[key]),
            max_retries=0,
            on_event=lambda event: texts.append(repr(event)),
        )
        try:
            if method == "chat":
                response = await gateway.chat(QUESTION)
            else:
                stream = gateway.stream(QUESTION)
                async for each in stream:
                    texts.append(repr(each))
                response = await stream.final_message()
            texts.append(repr(response))
        except (GatewayError, RuntimeError) as error:
            texts += texts_of(error)
        return [*texts, repr(gateway), recording.read_text()]


@pytest.mark.parametrize("examples", [20, pytest.param(800, marks=pytest.mark.long)])
def test_a_key_is_hidden_in_every_spelling(examples):
    @settings(max_examples=examples)
    @given(
        KEYS,
        st.sampled_from(MODELS),
        st.sampled_from(METHODS),
        st.sampled_from([*SPELLINGS]),
        st.data(),
    )
    def check(key, model, method, spelling, data):
        possible = answers(model, SPELLINGS[spelling](key))
        answer = possible[data.draw(st.sampled_from([*possible]))]
        texts = asyncio.run(texts_of_request(model, key, answer, method))
        spelled = {spell(key) for spell in SPELLINGS.values()}
        assert [text for text in texts for each in spelled if each in text] == []

    check()


@for_each("spell", SPELLINGS.values())
async def test_a_key_that_the_server_or_the_gateway_truncates_is_hidden(spell):
    key = "sk-Q7/x12345+67890abcdef"
    for message in (
        "bad key " + spell(key[:-4]),
        "x" * 3980 + spell(key),
        "x" * 3990 + " " + spell(key),
    ):
        server = Answers(httpx.Response(400, json=failure(message)))
        with pytest.raises(GatewayError) as caught:
            await Gateway("openai:m", api_key=key, transport=server).chat(QUESTION)
        assert spell(key[:8]) not in str(caught.value)


@for_each(
    "options",
    [
        # port
        {"base_url": "https://me:sk-Q7-secret/x@host.test"},
        # scheme
        {"base_url": "me:sk-Q7-secret@host.test"},
        # key
        {"api_key": "sk-Q7-secret with a space"},
        # fallback model
        {
            "api_key": {"openai": "sk-Q7-secret", "gemini": "sk-Q7-secret"},
            "fallback_models": ["odd:m"],
        },
        # option
        {"api_key": "sk-Q7-secret", "max_retries": -1},
        # missing key
        {"api_key": "sk-Q7-secret", "fallback_models": ["anthropic:m"]},
    ],
)
def test_invalid_settings_are_rejected_without_showing_a_key(options):
    for create in Gateway, Gateway.from_env:
        with pytest.raises(ConfigurationError) as caught:
            create("openai:m", **options)
        assert [text for text in texts_of(caught.value) if "sk-Q7" in text] == []


async def test_a_failing_transport_behind_a_recorder_shows_no_key(tmp_path):
    recorder = Recorder(tmp_path / "recording", ScriptedModel([]))
    options = {"api_key": "sk-Q7-secret", "base_url": "https://host.test/v1?key=sk-Q7-query"}
    with pytest.raises(ScriptError) as caught:
        await Gateway("openai:m", transport=recorder, **options).chat(QUESTION)
    assert [text for text in texts_of(caught.value) if "sk-Q7" in text] == []


async def test_a_failing_listener_shows_no_key():
    def fail(event):
        raise ZeroDivisionError

    server = Answers([start_of_stream("openai:m", "sk-Q7-secret") + DONE])
    gateway = Gateway("openai:m", api_key="sk-Q7-secret", transport=server)
    for name in ("stream_event", "text", "final_message"):
        with pytest.raises(ZeroDivisionError) as caught:
            await gateway.stream(QUESTION).on(name, fail).final_message()
        assert [text for text in texts_of(caught.value) if "sk-Q7" in text] == []
