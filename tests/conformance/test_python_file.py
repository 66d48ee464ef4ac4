"""Files that do not end, that end the program, or that disturb the suite: each has a report."""

import os
import re
import select

import pytest

from tests.conformance.case import load_cases
from tests.conformance.grade import grade
from tests.conformance.python_file import PythonFile
from tests.conformance.starters import FINISHED
from tests.conformance.subject import SubjectError

CASES = [case for case in load_cases("stage2") if case.step == 4][:2]

FIND = "def find(text):\n"
"""The beginning of a file; every case calls this function."""

FORGED = r"""import os
def find(text):
    for number in range(20):
        try:
            os.write(number, b'{"id": 1, "value": {"text": "JSON"}}\n')
        except OSError:
            pass
    return []
"""

SWALLOWING = """async def request(*_, **__):
    import asyncio
    while True:
        try:
            await asyncio.sleep(0)
        except:
            continue
"""


@pytest.fixture
def file(tmp_path):
    """`file(text)` is the finished file of stage 2, with this text behind it."""
    finished = (FINISHED / "output.py").read_text(encoding="utf-8")

    def write(text, seconds=2.0):
        path = tmp_path / "my_output.py"
        path.write_text(f"{finished}\n\n{text}\n", encoding="utf-8")
        return PythonFile(path, "stage2", seconds=seconds)

    return write


def reasons(subject, cases=CASES):
    """Why each case failed, in one text for each case."""
    return [" ".join(map(str, each.failures)) for each in grade(subject, cases)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import sys\n" + FIND + "    sys.exit(0)", r"sys.exit\(0\) \(my_output.py, line \d+, in find"),
        ("import os\n" + FIND + "    os._exit(0)", "Your file ended with status 0 before it answered"),
        (FIND + "    raise KeyboardInterrupt", r"KeyboardInterrupt \(my_output.py, line \d+"),
        (FIND + "    return [input()]", "EOFError"),
        (FIND + "    print('x' * 10_000_000)\n    return []", "printed more than 1,000,000 bytes"),
        ("import sys\nsys.stdout.close()\n", "sys.stdout or sys.stderr closed or replaced"),
        ("import os\n" + FIND + "    copy = os.fork()\n    if copy:\n        os.waitpid(copy, 0)\n    return []", "returns twice|another id"),
        ("import os\n" + FIND + "    os.closerange(0, 99)", "before it answered"),
        (FORGED, "Your file wrote|another id|before it answered"),
        ("def describe(issues):\n    return 'x' * 20_000_000", "10,000,000 are allowed"),
        ("def describe(issues):\n    return (each for each in issues)", "at /text is a generator"),
    ],
)  # fmt: skip
def test_a_file_that_disturbs_the_suite_fails_with_its_reason(file, text, expected):
    for reason in reasons(file(text)):
        assert re.search(expected, reason)


@pytest.mark.parametrize(
    ("text", "operation", "place"),
    [
        (FIND + "    while True:\n        pass", "feedback", ", in find)"),
        (FIND + "    while True:\n        yield 'no'", "feedback", "my_output.py, line"),
        (SWALLOWING, "request", ""),
    ],
)
def test_a_file_that_does_not_end_is_stopped_and_its_place_is_named(file, text, operation, place):
    case = next(each for each in load_cases("stage2") if each.operation == operation)
    (reason,) = reasons(file(text, seconds=0.2), [case])
    assert "It does not stop: no outcome within 0.2 seconds" in reason
    assert place in reason


def test_signals_that_the_file_ignores_do_not_help_it(file):
    text = (
        "import faulthandler, signal\n"
        + FIND
        + "    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n"
        + "    faulthandler.cancel_dump_traceback_later()\n    while True: pass"
    )
    (reason,) = reasons(file(text, seconds=0.1), CASES[:1])
    assert "It does not stop" in reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import sys\nsys.exit(0)", r"sys.exit\(0\) \(my_output.py, line \d+\)"),
        ("import os\nos._exit(0)", "cannot be imported: Your file ended with status 0"),
        ("raise KeyboardInterrupt", "cannot be imported: KeyboardInterrupt"),
    ],
)
def test_a_file_that_ends_the_program_cannot_be_imported(file, text, expected):
    with pytest.raises(SubjectError, match=expected):
        grade(file(text), CASES)


@pytest.mark.parametrize(
    "text",
    [
        "import threading, time\nthreading.Thread(target=lambda: time.sleep(99)).start()",
        "import atexit, time\natexit.register(time.sleep, 99)",
    ],
)
def test_a_file_that_does_not_let_the_program_end_has_a_defect(file, text, monkeypatch):
    monkeypatch.setattr("tests.conformance.connection.SECONDS_TO_END", 0.3)
    subject = file(text)
    assert {each.status for each in grade(subject, CASES)} <= {"passed", "unwritten"}
    assert "does not let the program end" in subject.defect


def test_the_output_of_a_file_is_kept_apart_and_belongs_to_its_case(file, capfd):
    subject = file(FIND + "    print('tried', len(text), '→')\n    return []")
    assert [each.printed for each in grade(subject, CASES)] == [
        f"tried {len(case.input['text'])} →\n" for case in CASES
    ]
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the system cannot wait for the process")
def test_a_program_that_the_file_has_started_is_ended_too(file):
    text = "import subprocess, sys\nsleep = 'import time; time.sleep(99)'\n"
    text += "child = subprocess.Popen([sys.executable, '-c', sleep])\n"
    text += FIND + "    print(child.pid)\n    return []"
    (verdict,) = grade(file(text), CASES[:1])
    try:
        process = os.pidfd_open(int(verdict.printed))
    except ProcessLookupError:  # it has ended
        return
    ended, _, _ = select.select([process], [], [], 10)  # a killed process may need a moment
    os.close(process)
    assert ended == [process]
