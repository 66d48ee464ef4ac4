"""A question that the rule-based model answers, and the gateways that ask it."""

from stage0_gateway import Gateway, Message, OfflineModel, ToolSpec

MODELS = ("openai:teacher", "anthropic:teacher", "gemini:teacher", "openai-responses:teacher")
"""The model in each wire format."""

WEATHER = ToolSpec(
    "get_weather",
    "Get the current weather of a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
QUESTION = Message.user("What is the weather in Shanghai?")
TEA = Message.user("Tell me about tea and where it comes from.")


def offline(model, faults=(), **options):
    """Return a gateway to the rule-based model with these faults; it does not retry."""
    options = {"max_retries": 0, "base_url": "http://model", **options}
    return Gateway(model, transport=OfflineModel(faults), **options)
