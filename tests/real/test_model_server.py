"""The main example with a real model server; set LLM_MODEL (and a key or LLM_BASE_URL) to run it.
It may cost money."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
ENVIRONMENT = dict(os.environ)  # before the fixture of all tests removes keys and models
MODEL = ENVIRONMENT.get("LLM_MODEL")


@pytest.mark.skipif(not MODEL, reason="no real model: LLM_MODEL is not set")
def test_a_real_model_answers_with_a_tool():
    command = [sys.executable, ROOT / "examples" / "basic_usage.py", "--model", MODEL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert "Tool rounds executed: 1" in done.stdout
