import pytest

from tests.llm_stages.cli.command import write_tools


@pytest.fixture
def tool_file(tmp_path):
    """A Python file with a tool that reads and a tool that writes."""
    return write_tools(tmp_path)


@pytest.fixture(autouse=True)
def own_environment(tmp_path, monkeypatch):
    """The sessions of a chat are in a folder of the test, and lines are not wrapped."""
    monkeypatch.setenv("LLM_STAGES_SESSIONS", str(tmp_path / "sessions.db"))
    monkeypatch.setenv("COLUMNS", "200")
