import json

from tests.llm_stages.cli.command import llm_stages


def test_doctor_reports_the_model_the_extras_and_what_the_server_supports(capsys):
    assert llm_stages("doctor", "--json") == 0
    rows = {row["check"]: row["value"] for row in json.loads(capsys.readouterr().out)}
    assert rows["model"] == "offline:teacher"
    assert rows["reachable"] == "yes"
    assert rows["native tool calls"] == "yes"
    assert rows["extra [fast]"] == "installed"


def test_doctor_never_prints_a_key(capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("LLM_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("LLM_MODEL", "openai:gpt-5-mini")
    assert llm_stages("doctor") == 1
    printed = capsys.readouterr()
    assert "sk-very-secret" not in printed.out + printed.err
    assert "OPENAI_API_KEY" in printed.out


def test_doctor_never_prints_the_credentials_of_a_url(capsys, monkeypatch):
    monkeypatch.setenv("LLM_BASE_URL", "http://ann:very-secret@127.0.0.1:9/v1")
    assert llm_stages("doctor") == 1
    printed = capsys.readouterr()
    assert "very-secret" not in printed.out + printed.err
    assert "http://[hidden]@127.0.0.1:9/v1" in printed.out


def test_an_unreachable_server_is_reported(capsys, monkeypatch):
    monkeypatch.setenv("LLM_BASE_URL", "http://127.0.0.1:9/v1")
    assert llm_stages("doctor", "--json") == 1
    rows = {row["check"]: row["value"] for row in json.loads(capsys.readouterr().out)}
    assert rows["reachable"].startswith("ConnectionFailed")
