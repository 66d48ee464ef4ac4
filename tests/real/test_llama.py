"""A real llama.cpp server with a model of random weights: random text over a real connection.

Opt-in, because the server takes a quarter of an hour to compile. Install it into any virtual
environment:

    CMAKE_ARGS="-DLLAVA_BUILD=OFF" pip install 'llama-cpp-python[server]'
    LLAMA_PYTHON=that/environment/bin/python .venv/bin/python -m pytest -m llama tests/real
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
        pytest.skip(f"the model {MODEL.name} is missing beside the data")
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


async def test_the_streamed_reply_equals_the_whole_reply(gateway):
    options = {"max_tokens": 20, "temperature": 0, "provider_options": {"seed": 1}}
    whole = await gateway.chat(ASK, **options)
    streamed = await gateway.stream(ASK, **options).final_message()
    assert (streamed.content, streamed.finish_reason) == (whole.content, whole.finish_reason)
    assert whole.usage.output_tokens == 20


async def test_a_grammar_makes_the_model_conform_to_the_schema(gateway):
    options = {"response_format": {"type": "json_object", "schema": SCHEMA}}
    reply = await gateway.chat(ASK, max_tokens=400, provider_options=options)
    assert json.loads(reply.content).keys() == {"tool"}


@pytest.mark.parametrize("method", ["chat", "stream"])
async def test_an_unknown_response_format_is_a_clear_error_and_not_retried(gateway, method):
    with pytest.raises(ServerFailed, match="should be 'text' or 'json_object'") as caught:
        await answer(gateway, method, ASK, response_schema=SCHEMA)
    assert (caught.value.status, caught.value.retryable) == (500, False)


async def test_null_content_is_a_clear_error_and_not_retried(gateway):
    null = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": None}]}
    with pytest.raises(ServerFailed, match="validation error") as caught:
        await gateway.chat(ASK, provider_options=null)
    assert not caught.value.retryable


async def test_our_messages_with_calls_have_no_null_content(gateway):
    messages = [*ASK, Message.assistant("", [ToolCall("1", "f")]), Message.tool("x", "1")]
    assert (await gateway.chat(messages, max_tokens=5)).usage.input_tokens > 20


@pytest.mark.parametrize("method", ["chat", "stream"])
async def test_a_named_tool_choice_is_called(gateway, method):
    tool = ToolSpec("geo.lookup", "", SCHEMA)
    reply = await answer(
        gateway, method, ASK, tools=[tool], tool_choice="geo.lookup", max_tokens=400
    )
    (call,) = reply.tool_calls
    assert (call.name, json.loads(call.arguments).keys()) == ("geo.lookup", {"tool"})


@pytest.mark.parametrize("method", ["chat", "stream"])
async def test_a_required_call_is_answered_or_rejected_with_a_message(gateway, method):
    """Releases differ: some answer without a call, some with a 500, some with an empty stream."""
    tools = [ToolSpec("f", "", SCHEMA)]
    text = await text_of(
        answer(gateway, method, ASK, tools=tools, tool_choice="required", max_tokens=20)
    )
    assert len(text) > 5


async def test_a_prompt_that_is_too_long_is_a_context_overflow(gateway):
    with pytest.raises(ContextOverflow, match="maximum context length is 8192"):
        await gateway.chat(TOO_LONG, max_tokens=20)


async def test_an_empty_stream_for_a_long_prompt_is_a_clear_error(gateway):
    with pytest.raises(
        (StreamInterrupted, ContextOverflow), match=r"before it sent anything|maximum context"
    ):
        await gateway.stream(TOO_LONG, max_tokens=20).final_message()


async def text_of(request):
    """Return the text of a reply, or of its error."""
    try:
        reply = await request
    except GatewayError as error:
        return str(error)
    return reply.content + "".join(call.arguments for call in reply.tool_calls)


async def answer(gateway, method, messages, **options):
    if method == "chat":
        return await gateway.chat(messages, **options)
    return await gateway.stream(messages, **options).final_message()
