"""Conversations with a scripted model, as in the tests of stage 3."""

from tests.stage3_tools.conftest import new_conversation

__all__ = ["new_conversation"]
