"""Clients of aimock, an independent mock model server; see test_aimock.py."""

import uuid
from dataclasses import dataclass, field

import httpx

from stage0_gateway import Gateway, Message

KEY = "sk-the-right-key"
FORMATS = {
    "openai": ("openai:gpt-5-mini", "/v1"),
    "anthropic": ("anthropic:claude-haiku-4-5", "/v1"),
    "gemini": ("gemini:gemini-2.5-flash", "/v1beta"),
    "openai-responses": ("openai-responses:gpt-4.1-mini", "/v1"),
}


def question(text):
    return [Message.user(text)]


@dataclass(frozen=True)
class Peer:
    """A client of aimock in one format. aimock counts repeated questions for each test."""

    server: str
    wire: str
    test: str = field(default_factory=lambda: uuid.uuid4().hex)

    def gateway(self, **options):
        model, path = FORMATS[self.wire]
        base_url = f"{self.server}{path}?testId={self.test}"
        return Gateway(model, **{"api_key": KEY, "base_url": base_url, "max_retries": 0, **options})

    def seen(self):
        """Return the received requests as aimock decoded them: in OpenAI's format, for any format."""
        query = {"testId": self.test}
        answer = httpx.get(
            f"{self.server}/__aimock/journal", params=query, headers={"x-api-key": KEY}
        )
        return [entry["body"] for entry in answer.raise_for_status().json()]
