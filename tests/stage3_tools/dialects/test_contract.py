"""The dialects make the promises of `Dialect`."""

import pytest

from llm_stages.testing import DialectContract
from llm_stages.testing.dialects import decision_of
from stage0_gateway import ChatResponse
from stage3_tools import NativeDialect, PromptDialect


class TestPromptDialect(DialectContract):
    @pytest.fixture
    def dialect(self):
        return PromptDialect()

    @pytest.fixture
    def reply_of(self):
        return decision_of


class TestPromptDialectWithSeveralCalls(TestPromptDialect):
    @pytest.fixture
    def dialect(self):
        return PromptDialect(multiple=True, strict="always")


class TestNativeDialect(DialectContract):
    @pytest.fixture
    def dialect(self):
        return NativeDialect()

    @pytest.fixture
    def reply_of(self):
        return ChatResponse
