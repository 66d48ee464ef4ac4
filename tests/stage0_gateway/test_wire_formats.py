"""The wire formats and the server formats make the promises of their protocols."""

import pytest

from llm_stages.testing import WireFormatContract
from stage0_gateway.server import anthropic as anthropic_server
from stage0_gateway.server import gemini as gemini_server
from stage0_gateway.server import openai as openai_server
from stage0_gateway.server import openai_responses as openai_responses_server
from stage0_gateway.wire import anthropic, gemini, openai, openai_responses


class TestOpenAI(WireFormatContract):
    @pytest.fixture
    def wire(self):
        return openai

    @pytest.fixture
    def server(self):
        return openai_server


class TestOpenAIResponses(WireFormatContract):
    @pytest.fixture
    def wire(self):
        return openai_responses

    @pytest.fixture
    def server(self):
        return openai_responses_server


class TestAnthropic(WireFormatContract):
    @pytest.fixture
    def wire(self):
        return anthropic

    @pytest.fixture
    def server(self):
        return anthropic_server


class TestGemini(WireFormatContract):
    @pytest.fixture
    def wire(self):
        return gemini

    @pytest.fixture
    def server(self):
        return gemini_server
