"""The curl command of the README gets a reply of the embedded model."""

import json
import re
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.real


@pytest.fixture
def base_url():
    """The URL of a server that was started from the command line."""
    command = [sys.executable, "-m", "stage3_tools", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        server.stdout.readline()
        yield re.fullmatch(r"LLM_BASE_URL=(\S+)\n", server.stdout.readline())[1]
        server.terminate()


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_curl_gets_a_tool_call(base_url):
    parameters = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    body = {
        "model": "teacher",
        "messages": [{"role": "user", "content": "What is the weather in Oslo?"}],
        "tools": [
            {"type": "function", "function": {"name": "get_weather", "parameters": parameters}}
        ],
    }
    command = [
        "curl",
        "--silent",
        "--fail",
        "--json",
        json.dumps(body),
        f"{base_url}/chat/completions",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    message = json.loads(done.stdout)["choices"][0]["message"]
    assert message["tool_calls"][0]["function"] == {
        "name": "get_weather",
        "arguments": '{"city": "Oslo"}',
    }
