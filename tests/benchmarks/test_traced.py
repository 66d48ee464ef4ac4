"""The tracer counts the functions of some packages that run, with their files and lines."""

import importlib
import sys
from threading import Thread

import pytest

from tests.benchmarks.side_by_side.traced import Tracer

SOURCE = '''"""A module, whose own code does not count."""
from functools import cache


@cache
def outer(times):
    def inner():
        return 1

    for _ in range(times):
        inner()


def unused():
    return 2


class Reader:
    def read(self):
        return 3
'''


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Two packages with the same module: `traced_one` and `traced_two`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("traced_one", "traced_two"):
        (tmp_path / name / "room").mkdir(parents=True)
        for file in ("__init__.py", "module.py", "room/__init__.py", "room/module.py"):
            (tmp_path / name / file).write_text(SOURCE if file.endswith("module.py") else "")
    yield
    for name in [name for name in sys.modules if name.startswith(("traced_one", "traced_two"))]:
        del sys.modules[name]


def test_functions_count_once_in_all_threads_of_the_named_packages(packages):
    tracer = Tracer(["traced_one"])
    before = importlib.import_module("traced_one.module")
    before.Reader().read()
    with tracer.tracing():
        room = importlib.import_module("traced_one.room.module")
        importlib.import_module("traced_two.module").outer(1)
        before.outer(3)
        thread = Thread(target=room.Reader().read)
        thread.start()
        thread.join()
    before.unused()
    path = tracer.path()
    lines = {"Reader.read": 2, "outer": 7, "inner": 2}
    assert path == {
        "listed": {
            "traced_one/room/module.py": ["Reader.read"],
            "traced_one/module.py": ["outer", "outer.<locals>.inner"],
        },
        "files": 2,
        "lines": 2 * len(SOURCE.splitlines()),
        "functions": 3,
        "lines of functions": sum(lines.values()),
    }
