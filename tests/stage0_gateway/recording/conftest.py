"""A fixture of the recording tests."""

import pytest


@pytest.fixture
def path(tmp_path):
    """The path of a recording that does not exist yet."""
    return tmp_path / "recording.jsonl"
