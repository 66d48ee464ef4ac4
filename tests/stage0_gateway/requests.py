"""Requests that tests send, and both ways to send them."""

from stage0_gateway import (
    DocumentPart,
    ImagePart,
    JsonPart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolSpec,
)
from tests.tables import for_each

QUESTION = [Message.user("hi")]

SPEC = ToolSpec("f", "does it", {"type": "object", "properties": {"a": {"type": "integer"}}})
CONVERSATION = (
    Message.system("be brief"),
    Message.user(
        (TextPart("what is this?"), ImagePart("AAAA"), DocumentPart("BBBB", name="a.pdf"))
    ),
    Message.assistant(
        (ThinkingPart("hm"), TextPart("let me see")), [ToolCall("1", "f", '{"a": 1}')]
    ),
    Message.tool((JsonPart({"b": 2}),), "1", name="f"),
)
"""A conversation with the usual parts of messages, and a call of the tool in `SPEC`."""

MODELS = ("openai:m", "anthropic:m", "gemini:m", "openai-responses:m")
"""A model of each wire format."""

METHODS = ("chat", "stream")

each_method = for_each("method", METHODS)


async def ask(gateway, method="chat", messages=QUESTION, **options):
    """Return the reply to a request: from `chat`, or from the end of a stream."""
    if method == "chat":
        return await gateway.chat(messages, **options)
    return await gateway.stream(messages, **options).final_message()
