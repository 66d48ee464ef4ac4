"""The session of mutants: which mutants of a small project its tests notice."""

import subprocess
import sys

import pytest

from tests.mutants.__main__ import ROOT

MODULE = """
def add(a, b):
    return a + b

def half(a):
    return a // 2

def unused(a):
    return a * 2
"""
TESTS = """
from package.sums import add, half

def test_add(subtests):
    for a, b, total in [(0, 0, 0), (1, 2, 3)]:
        with subtests.test(a=a, b=b):
            assert add(a, b) == total

def test_half():
    assert half(0) == 0
"""
PROGRAM = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, "."]
from pathlib import Path
import pytest
from tests.mutants.changes import mutants_of
from tests.mutants.session import MutantSession

root = Path.cwd()
show = lambda mutant, result: print(f"{{mutant.after}}: {{result}}")
session = MutantSession(root, ["package"], mutants_of(root, "package/sums.py"), show)
pytest.main(["-q", "-c", "pytest.ini", "--capture=no", "test_sums.py"], plugins=[session])
"""


@pytest.mark.long
def test_a_mutant_is_killed_by_a_failed_test_or_subtest(tmp_path):
    pytest.importorskip("coverage", reason="coverage is part of the extra [dev]")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "sums.py").write_text(MODULE)
    (tmp_path / "test_sums.py").write_text(TESTS)
    (tmp_path / "pytest.ini").touch()
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    results = [line for line in done.stdout.splitlines() if line.startswith("return")]
    assert results == [
        "return None: killed",
        "return a - b: killed",
        "return None: killed",
        "return a * 2: survived",
        "return a // 3: survived",
        "return None: not run",
        "return a // 2: not run",
        "return a * 3: not run",
    ], done.stdout + done.stderr
