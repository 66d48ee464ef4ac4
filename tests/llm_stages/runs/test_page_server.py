"""The page of a growing file is served to this machine only."""

import socket
import struct
import threading

import httpx
import pytest

from llm_stages.runs.page.server import make_server
from tests.llm_stages.cli.command import llm_stages
from tests.stage3_tools.conversation import answer
from tests.tables import for_each


@pytest.fixture
def served(tmp_path):
    """`served(path)` returns a client of the server of a run file."""
    running = []

    def start(path, **settings):
        server = make_server(path)
        vars(server).update(settings)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        client = httpx.Client(base_url=f"http://127.0.0.1:{server.server_port}", trust_env=False)
        running.append((server, thread, client))
        return client

    yield start
    for server, thread, client in running:
        client.close()
        server.shutdown()
        thread.join()
        server.server_close()


async def test_the_page_may_connect_to_its_server_only(served, traced, run_file):
    await traced([answer()])
    response = served(run_file.path).get("/")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "connect-src 'self'" in response.text
    assert '"follow":true' in response.text


async def test_data_is_sent_only_if_the_file_has_grown(served, run_file, new_conversation):
    conversation = new_conversation([answer()] * 2)
    await conversation.ask("First?", trace=run_file)
    client = served(run_file.path)
    first = client.get("/data").json()
    assert client.get("/data", params={"known": first["known"]}).status_code == 204
    await conversation.ask("Second?", trace=run_file)
    second = client.get("/data", params={"known": first["known"]})
    assert second.status_code == 200
    assert [run["question"] for run in second.json()["runs"]] == ["First?", "Second?"]


def test_a_file_that_does_not_exist_yet_is_shown_as_empty(served, tmp_path):
    path = tmp_path / "later.jsonl"
    client = served(path)
    data = client.get("/data").json()
    assert (data["turns"], data["problems"]) == ([], ["The file contains no run yet."])
    path.write_text("no JSON\n")
    assert "line 1" in client.get("/data").json()["problems"][0]
    assert client.get("/").status_code == 200


@for_each("host", ["example.com", "127.0.0.1.example.com:80", "", "localhost.evil:1"])
def test_requests_to_another_host_are_refused(served, tmp_path, host):
    answer = served(tmp_path / "run.jsonl").get("/data", headers={"host": host})
    assert answer.status_code == 403


def test_this_machine_may_be_named_localhost(served, tmp_path):
    client = served(tmp_path / "run.jsonl")
    assert client.get("/", headers={"host": "localhost:1"}).status_code == 200


def test_other_addresses_are_not_found(served, tmp_path):
    assert served(tmp_path / "run.jsonl").get("/etc/passwd").status_code == 404


def connected(client):
    """Return a socket that has sent a part of a request only."""
    one = socket.create_connection(("127.0.0.1", client.base_url.port), timeout=5)
    one.sendall(b"GET / HTTP/1.1\r\n")
    return one


def answering():
    """Return the threads that answer a connection."""
    return [each for each in threading.enumerate() if "process_request_thread" in each.name]


def test_a_client_that_goes_away_causes_no_traceback(served, tmp_path, capfd):
    client = served(tmp_path / "run.jsonl")
    for _ in range(5):
        one = connected(client)
        one.sendall(b"Host: 127.0.0.1\r\n\r\n")
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()  # resets the connection
    assert client.get("/").status_code == 200
    for thread in answering():
        thread.join()
    assert "Traceback" not in capfd.readouterr().err


def test_slow_clients_do_not_occupy_the_server(served, tmp_path):
    client = served(tmp_path / "run.jsonl")
    slow = [connected(client) for _ in range(100)]
    assert client.get("/").status_code == 200
    assert slow[0].recv(1) == b""  # it was ended
    assert len(answering()) <= 64
    for one in slow:
        one.close()


def test_a_slow_client_is_ended_after_some_time(served, tmp_path):
    one = connected(served(tmp_path / "run.jsonl", max_seconds=0.05))
    assert one.recv(1) == b""
    one.close()


@for_each("port", ["65536", "-1", "9" * 40])
@for_each("command", [["inspect", "run.jsonl", "--serve"], ["serve"]])
def test_an_invalid_port_is_an_error(command, port, capsys):
    assert llm_stages(*command, f"--port={port}") == 2
    assert capsys.readouterr().err.count("Cannot listen on") == 1
