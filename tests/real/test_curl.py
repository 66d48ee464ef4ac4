"""The curl command of the README gets a reply of the embedded model."""

import json
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.real


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
