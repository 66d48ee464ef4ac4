"""A real llama.cpp server with a model of random weights: it talks nonsense, over a real wire.

Opt-in, because the server takes a quarter of an hour to compile:

    CMAKE_ARGS="-DLLAVA_BUILD=OFF" pip install 'llama-cpp-python[server]'      (into any virtual
    environment) LLAMA_PYTHON=that/environment/bin/python .venv/bin/python -m pytest -m llama
    tests/real
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stage0_gateway import (
    ContextOverflow,
    Gateway,
    GatewayError,
    Message,
    ServerFailed,
    StreamInterrupted,
    ToolCall,
    ToolSpec,
)

pytestmark = pytest.mark.llama
DATA = Path(os.environ.get("LLM_STAGES_DATA") or Path(__file__).parents[3] / "shared" / "data")
MODEL = DATA.parent / "llama" / "tiny.gguf"
PYTHON = os.environ.get("LLAMA_PYTHON", sys.executable)
SCHEMA = {
    "type": "object",
    "properties": {"tool": {"type": "string", "maxLength": 10}},
    "required": ["tool"],
    "additionalProperties": False,
}
ASK = [Message.user("def f(x):")]
TOO_LONG = [Message.user("x = 1\n" * 9000)]


@pytest.fixture(scope="module")
def base_url(tmp_path_factory):
    if not MODEL.exists():
        pytest.skip(f"there is no model at {MODEL.name} beside the data")
    if subprocess.run([PYTHON, "-c", "import llama_cpp.server"], capture_output=True).returncode:
        pytest.skip("llama-cpp-python[server] is not installed; set LLAMA_PYTHON")
    command = [
        PYTHON,
        "-m",
        "llama_cpp.server",
        "--model",
        str(MODEL),
        "--port",
        "0",
        "--n_ctx",
        "8192",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            for line in server.stderr:
                if found := re.search(r"running on (http://\S+)", line):
                    break
            log = tmp_path_factory.mktemp("llama") / "log"
            with log.open("w") as rest:  # an unread pipe would stop the server
                reader = subprocess.Popen(["cat"], stdin=server.stderr, stdout=rest)
            yield f"{found[1]}/v1"
        finally:
            server.terminate()
            reader.wait()


@pytest.fixture
async def gateway(base_url):
    async with Gateway("openai:tiny", base_url=base_url, max_retries=0) as gateway:
        yield gateway


async def test_the_streamed_reply_says_what_the_whole_one_says(gateway):
    options = {"max_tokens": 20, "temperature": 0, "provider_options": {"seed": 1}}
    whole = await gateway.chat(ASK, **options)
    streamed = await gateway.stream(ASK, **options).final_message()
    assert (streamed.content, streamed.finish_reason) == (whole.content, whole.finish_reason)
    assert whole.usage.output_tokens == 20


async def test_a_grammar_holds_the_model_to_the_schema(gateway):
    wish = {"response_format": {"type": "json_object", "schema": SCHEMA}}
    reply = await gateway.chat(ASK, max_tokens=400, provider_options=wish)
    assert json.loads(reply.content).keys() == {"tool"}


@pytest.mark.parametrize("way", ["chat", "stream"])
async def test_a_response_format_it_does_not_know_is_a_clear_error_and_not_sent_again(gateway, way):
    with pytest.raises(ServerFailed, match="should be 'text' or 'json_object'") as caught:
        await answer(gateway, way, ASK, response_schema=SCHEMA)
    assert (caught.value.status, caught.value.retryable) == (500, False)


async def test_a_null_content_is_a_clear_error_and_not_sent_again(gateway):
    null = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": None}]}
    with pytest.raises(ServerFailed, match="validation error") as caught:
        await gateway.chat(ASK, provider_options=null)
    assert not caught.value.retryable


async def test_our_own_messages_with_calls_hold_no_null(gateway):
    talk = [*ASK, Message.assistant("", [ToolCall("1", "f")]), Message.tool("x", "1")]
    assert (await gateway.chat(talk, max_tokens=5)).usage.input_tokens > 20


@pytest.mark.parametrize("way", ["chat", "stream"])
async def test_a_tool_that_must_be_called_is_called(gateway, way):
    tool = ToolSpec("geo.lookup", "", SCHEMA)
    reply = await answer(gateway, way, ASK, tools=[tool], tool_choice="geo.lookup", max_tokens=400)
    (call,) = reply.tool_calls
    assert (call.name, json.loads(call.arguments).keys()) == ("geo.lookup", {"tool"})


@pytest.mark.parametrize("way", ["chat", "stream"])
async def test_a_required_call_is_answered_or_refused_in_words(gateway, way):
    """Releases differ: some answer without a call, some with a 500, some with an empty stream."""
    tools = [ToolSpec("f", "", SCHEMA)]
    said = await words_of(
        answer(gateway, way, ASK, tools=tools, tool_choice="required", max_tokens=20)
    )
    assert len(said) > 5


async def test_a_prompt_that_is_too_long_is_a_context_overflow(gateway):
    with pytest.raises(ContextOverflow, match="maximum context length is 8192"):
        await gateway.chat(TOO_LONG, max_tokens=20)


async def test_the_empty_stream_it_sends_for_such_a_prompt_is_a_clear_error(gateway):
    with pytest.raises(
        (StreamInterrupted, ContextOverflow), match=r"before it sent anything|maximum context"
    ):
        await gateway.stream(TOO_LONG, max_tokens=20).final_message()


async def words_of(asked):
    """What a reply says, or what the error says that came instead."""
    try:
        reply = await asked
    except GatewayError as error:
        return str(error)
    return reply.content + "".join(call.arguments for call in reply.tool_calls)


async def answer(gateway, way, messages, **options):
    if way == "chat":
        return await gateway.chat(messages, **options)
    return await gateway.stream(messages, **options).final_message()
