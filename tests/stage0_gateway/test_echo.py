"""Messages survive a round trip: through a gateway, a real socket, and a server that echoes.

The server decodes a request as a model server would, and answers with its last message. Each example
therefore passes the encoding and the decoding of both sides, and HTTP.
"""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stage0_gateway import ChatResponse, Gateway, Message, ToolCall
from stage0_gateway.server.answer import reply_answer
from stage0_gateway.server.routing import format_of, wants_stream

pytestmark = pytest.mark.long

MODELS = {"openai": "/v1", "anthropic": "/v1", "gemini": "/v1beta", "openai-responses": "/v1"}
texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=80)
names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=80)
arguments = st.dictionaries(
    texts, st.none() | st.booleans() | st.integers(-9, 9) | texts, max_size=3
)


@pytest.fixture(scope="module")
def base():
    class Echo(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self):
            form = format_of(self.path)
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            echoed = form.decode_request(body, self.path).messages[-1]
            reply = ChatResponse(
                Message.assistant(echoed.content, echoed.tool_calls), finish_reason="stop"
            )
            answer = reply_answer(form, reply, stream=wants_stream(self.path, body), piece=3)
            self.send_response(answer.status)
            self.send_header("content-type", answer.content_type)
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=25)
@given(text=texts, called=st.lists(st.tuples(names, arguments), max_size=3))
def test_any_text_and_tool_calls_survive_the_round_trip(base, model, text, called):
    calls = [
        ToolCall(f"call_{n}", name, json.dumps(value)) for n, (name, value) in enumerate(called)
    ]
    echoed = Message.assistant(text, calls)

    async def ask():
        async with Gateway(f"{model}:m", base_url=base + MODELS[model]) as gateway:
            messages = [Message.user("hi"), echoed]
            return await gateway.chat(messages), await gateway.stream(messages).final_message()

    whole, streamed = asyncio.run(ask())
    assert streamed == whole
    assert whole.content == text
    assert [json.loads(call.arguments) for call in whole.tool_calls] == [
        value for _, value in called
    ]
    assert len({call.name for call in whole.tool_calls}) == len({name for name, _ in called})
