import sys

import pytest

TOOLS = '''
from stage3_tools import tool


@tool(effect="read")
def get_weather(city: str) -> dict[str, object]:
    """Get the weather in a city.

    Args:
        city: The name of the city.
    """
    return {"city": city, "temp": 22}


@tool(effect="write")
def delete_file(path: str) -> str:
    """Delete a file.

    Args:
        path: The path of the file.
    """
    return f"deleted {path}"
'''


@pytest.fixture
def tool_file(tmp_path):
    """A Python file with a tool that reads and a tool that writes."""
    path = tmp_path / "my_tools.py"
    path.write_text(TOOLS, encoding="utf-8")
    return str(path)


@pytest.fixture(autouse=True)
def _own_modules(tmp_path, monkeypatch):
    """The command imports a file of tools as a module, which no other test must find."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def _own_settings(tmp_path, monkeypatch):
    """No model of the environment, and sessions in a folder of the test."""
    for name in ("LLM_MODEL", "LLM_BASE_URL", "LLM_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LLM_STAGES_SESSIONS", str(tmp_path / "sessions.db"))
