"""Fixtures for all tests: no settings of the environment, no waits between retries, shared helpers."""

import asyncio
import functools
import gc
import importlib.util
import inspect
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
import stamina
from hypothesis import settings

# Machines differ in speed, so examples have no deadline. The same examples are drawn everywhere.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("long", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("default")

DATA = Path(
    os.environ.get("LLM_STAGES_DATA") or Path(__file__).parents[1] / "../shared/data"
).resolve()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Run one process more than there are cores, because some tests wait."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session")
def recorded():
    """`recorded(file)` returns the rows of a file of external data, and the module that compares
    them."""

    @functools.cache
    def load(name):
        if not (DATA / name).is_file():
            pytest.skip(f"no {name} in {DATA}; set LLM_STAGES_DATA")
        spec = importlib.util.spec_from_file_location("harness", DATA / "harness.py")
        harness = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(harness)
        return list(harness.rows(str(DATA / name))), harness

    return load


@pytest.fixture
def say(record_property):
    """`say(text)` reports the number of rows of the external data that a test has checked."""
    return lambda text: record_property("checked", text)


def pytest_terminal_summary(terminalreporter):
    """Print the reports of `say`, also if all tests pass."""
    for report in terminalreporter.stats.get("passed", []):
        for name, text in report.user_properties:
            if name == "checked":
                terminalreporter.write_line(text)


def pytest_collection():
    """Collect garbage rarely."""
    gc.set_threshold(20_000, 20, 100)


def pytest_collection_finish():
    """Never look for garbage in the collected tests, because all of them stay alive."""
    gc.freeze()


@pytest.fixture
def collect():
    """`collect()` is `gc.collect()` for objects of the test only."""
    gc.freeze()
    return gc.collect


@pytest.fixture
async def _no_tasks_left():
    """Cancel the tasks that a test has not awaited, and report them, and errors of the event loop.

    The event loop itself would report a failed task when it is destroyed, and would format its
    traceback. That may happen while pytest formats another one, which ends Python 3.11.
    """
    errors = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: errors.append(repr(context)))
    yield
    for _ in range(100):  # tasks that close async generators are about to end
        await asyncio.sleep(0)
        if not (left := asyncio.all_tasks() - {asyncio.current_task()}):
            break
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    assert (left, errors) == (set(), [])


@pytest.fixture(autouse=True)
def no_tasks_left(request):
    """Async tests await or cancel their tasks."""
    if inspect.iscoroutinefunction(getattr(request.node, "function", None)):
        request.getfixturevalue("_no_tasks_left")


@pytest.fixture
def serve():
    """`serve(answer)` starts a server on loopback and returns its URL; `answer(path)` returns status
    and body."""
    running = []

    def start(answer):
        class Exchange(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                status, body = answer(self.path)
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Exchange)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="session", autouse=True)
def no_settings_from_outside():
    """Remove the keys and models of the environment."""
    with pytest.MonkeyPatch.context() as changes:
        for name in [*os.environ]:
            if name.startswith("LLM_") and name != "LLM_STAGES_DATA":
                changes.delenv(name)
            if name.endswith("_API_KEY") or name.lower().endswith("_proxy"):
                changes.delenv(name)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waiting_between_retries():
    """Retry without waiting."""
    with stamina.set_testing(True, attempts=100, cap=True):
        yield


@pytest.fixture(scope="session", autouse=True)
def certificates_are_loaded_once():
    """Load the certificates for the first gateway only, and again for another file of them."""
    load = httpx.create_ssl_context

    @functools.cache
    def context(file, *arguments, **options):
        return load(*arguments, **options)

    def create_ssl_context(*arguments, **options):
        return context(os.environ.get("SSL_CERT_FILE"), *arguments, **options)

    with pytest.MonkeyPatch.context() as changes:
        changes.setattr(httpx, "create_ssl_context", create_ssl_context)
        yield


@pytest.fixture(scope="session", autouse=True)
def httpx_transports_by_default():
    """Gateways use httpx's connections although the extra [fast] is installed; tests of [fast] name its transport."""
    with pytest.MonkeyPatch.context() as changes:
        changes.setattr("stage0_gateway.http.client.find_spec", lambda name: None)
        yield
