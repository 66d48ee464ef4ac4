"""Files that do not end, that end the program, or that disturb the suite: each has a report."""

import os
import re
import select

import pytest

from tests.conformance.case import load_cases
from tests.conformance.course import FILES
from tests.conformance.grade import grade
from tests.conformance.python_file import PythonFile
from tests.conformance.starters import FINISHED
from tests.conformance.subject import SubjectError
from tests.tables import for_each

COUNT = "def count_tokens(message):\n"
"""The beginning of a file; each case calls this function."""

CASES = [case for case in load_cases("stage1") if case.operation == "count"][:2]

FORGED = r"""import os
def count_tokens(message):
    for number in range(20):
        try:
            os.write(number, b'{"id": 1, "value": {"value": 25}}\n')
        except OSError:
            pass
    return 25
"""

SWALLOWING = """async def count_tokens(message):
    import asyncio
    while True:
        try:
            await asyncio.sleep(0.001)
        except:
            continue
"""

ENDLESS = """import time
def find(text):
    while True:
        time.sleep(0.01)
        yield 'no'
"""


@pytest.fixture
def file(tmp_path):
    """`file(text)` is the finished file of a stage, with this text behind it."""

    def write(text, stage="stage1", seconds=2.0):
        path = tmp_path / "my_file.py"
        finished = (FINISHED / FILES[stage]).read_text(encoding="utf-8")
        path.write_text(f"{finished}\n\n{text}\n", encoding="utf-8")
        return PythonFile(path, stage, seconds=seconds)

    return write


def reasons(subject, cases=CASES[:1]):
    """Why each case failed, in one text for each case."""
    return [" ".join(map(str, each.failures)) for each in grade(subject, cases)]


@for_each(
    "text, expected",
    [
        (COUNT + "    raise KeyboardInterrupt", r"KeyboardInterrupt \(my_file.py, line \d+"),
        (COUNT + "    return [input()]", "EOFError"),
        (COUNT + "    print('x' * 2_000_000)\n    return 25", "printed more than 1,000,000 bytes"),
        ("import sys\nsys.stdout.close()\n", "sys.stdout or sys.stderr closed or replaced"),
        ("import os\n" + COUNT + "    copy = os.fork()\n    if copy:\n        os.waitpid(copy, 0)\n    return 25", "returns twice|another id"),
        ("import os\n" + COUNT + "    os.closerange(0, 99)", "before it answered"),
        (FORGED, "Your file wrote|another id|before it answered"),
        (COUNT + "    return 'x' * 11_000_000", "10,000,000 are allowed"),
        (COUNT + "    return [each for each in ([], (each for each in message))]", "at /1 is a generator"),
    ],
)  # fmt: skip
def test_a_file_that_disturbs_the_suite_fails_with_its_reason(file, text, expected):
    (reason,) = reasons(file(text))
    assert re.search(expected, reason), reason


@for_each(
    "text, expected",
    [
        ("import sys\n" + COUNT + "    sys.exit(0)", r"sys.exit\(0\) \(my_file.py, line \d+, in count"),
        ("import os\n" + COUNT + "    os._exit(0)", "Your file ended with status 0 before it answered"),
    ],
)  # fmt: skip
def test_the_cases_after_one_that_ended_the_program_are_run(file, text, expected):
    for reason in reasons(file(text), CASES):
        assert re.search(expected, reason), reason


@for_each(
    "stage, operation, text, place",
    [
        ("stage1", "count", COUNT + "    while True:\n        pass", ", in count_tokens)"),
        ("stage1", "count", SWALLOWING, ""),
        ("stage2", "read", ENDLESS, "my_file.py, line"),
    ],
)
def test_a_file_that_does_not_end_is_stopped_and_its_place_is_named(
    file, stage, operation, text, place
):
    case = next(each for each in load_cases(stage) if each.operation == operation)
    (reason,) = reasons(file(text, stage, seconds=0.2), [case])
    assert "It does not stop: no outcome within 0.2 seconds" in reason
    assert place in reason


def test_signals_that_the_file_ignores_do_not_help_it(file, monkeypatch):
    monkeypatch.setattr("tests.conformance.python_file.GRACE", 0.2)
    text = (
        "import faulthandler, signal, time\n"
        + COUNT
        + "    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n"
        + "    faulthandler.cancel_dump_traceback_later()\n    while True: time.sleep(9)"
    )
    (reason,) = reasons(file(text, seconds=0.1))
    assert "It does not stop" in reason


@for_each(
    "text, expected",
    [
        ("import sys\nsys.exit(0)", r"sys.exit\(0\) \(my_file.py, line \d+\)"),
        ("import os\nos._exit(0)", "cannot be imported: Your file ended with status 0"),
        ("raise KeyboardInterrupt", "cannot be imported: KeyboardInterrupt"),
    ],
)
def test_a_file_that_ends_the_program_cannot_be_imported(file, text, expected):
    with pytest.raises(SubjectError, match=expected):
        reasons(file(text))


@for_each(
    "text",
    [
        "import threading, time\nthreading.Thread(target=lambda: time.sleep(99)).start()",
        "import atexit, time\natexit.register(time.sleep, 99)",
    ],
)
def test_a_file_that_does_not_let_the_program_end_has_a_defect(file, text, monkeypatch):
    monkeypatch.setattr("tests.conformance.connection.SECONDS_TO_END", 0.2)
    subject = file(text)
    assert reasons(subject) == [""]
    assert "does not let the program end" in subject.defect


def test_the_output_of_a_file_is_kept_apart_and_belongs_to_its_case(file, capfd):
    subject = file(COUNT + "    print('counted', message['content'], '→')\n    return 25")
    assert [each.printed for each in grade(subject, CASES)] == [
        f"counted {case.input['message']['content']} →\n" for case in CASES
    ]
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the system cannot wait for the process")
def test_a_program_that_the_file_has_started_is_ended_too(file):
    text = "import subprocess\nchild = subprocess.Popen(['sleep', '99'])\n"
    text += COUNT + "    print(child.pid)\n    return 25"
    (verdict,) = grade(file(text), CASES[:1])
    try:
        process = os.pidfd_open(int(verdict.printed))
    except ProcessLookupError:  # it has ended
        return
    ended, _, _ = select.select([process], [], [], 10)  # a killed process may need a moment
    os.close(process)
    assert ended == [process]
