"""For every test: no settings from outside, and no waiting between retries."""

import os

import pytest
import stamina
from hypothesis import settings

# Machines differ in speed; a slow example is no failure, and the same examples are drawn everywhere.
settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch):
    """Keys and models of whoever runs the tests stay out of them."""
    for name in [*os.environ]:
        if name.startswith("LLM_") and name != "LLM_STAGES_DATA":
            monkeypatch.delenv(name)
        if name.endswith("_API_KEY") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def no_waiting_between_retries():
    """Retries happen, their waits do not."""
    with stamina.set_testing(True, attempts=100, cap=True):
        yield
