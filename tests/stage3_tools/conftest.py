"""The fixture of stage 3: conversations with a scripted model."""

import pytest

from tests.stage3_tools.conversation import Conversation


@pytest.fixture
async def new_conversation():
    """Create conversations. At the end, all of their scripted replies must be used."""
    made = []

    def make(replies=(), *tools, **rest):
        made.append(Conversation(replies, tools, **rest))
        return made[-1]

    yield make
    for each in made:
        each.model.assert_finished()
        await each.gateway.aclose()
