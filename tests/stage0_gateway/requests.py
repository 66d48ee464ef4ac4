"""Requests that tests send, and both ways to send them."""

from stage0_gateway import Message
from tests.tables import for_each

QUESTION = [Message.user("hi")]

MODELS = ("openai:m", "anthropic:m", "gemini:m", "openai-responses:m")
"""A model of each wire format."""

METHODS = ("chat", "stream")

each_method = for_each("method", METHODS)


async def ask(gateway, method="chat", messages=QUESTION, **options):
    """Return the reply to a request: from `chat`, or from the end of a stream."""
    if method == "chat":
        return await gateway.chat(messages, **options)
    return await gateway.stream(messages, **options).final_message()
