from types import MappingProxyType

from llm_stages.testing.stores import nested
from stage0_gateway import (
    DocumentPart,
    ImagePart,
    JsonPart,
    Message,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage1_context.counting.heuristic import ApproximateCounter
from stage1_context.tokens import IMAGE_TOKENS, MESSAGE_OVERHEAD, message_tokens
from tests.stage1_context.sessions import CharacterCounter
from tests.tables import for_each


@for_each(
    "message, tokens",
    [
        (Message.user("12345"), 5),
        (Message.tool("123", "an id that is not counted"), 3),
        (
            Message.assistant("12", [ToolCall("id", "name", "{}"), ToolCall("id2", "f", "{1}")]),
            2 + 10 + 8,
        ),
        (Message.assistant("only the parsed text", raw_text="1234"), 4),
        (Message.user((TextPart("12"), ThinkingPart("345"))), 5),
        (Message.user((ImagePart(data="x" * 9999),)), IMAGE_TOKENS),
        (Message.user((DocumentPart("x" * 400),)), 100),
        (Message.user((DocumentPart(url="https://example.com/a.pdf"),)), IMAGE_TOKENS),
        (Message.user((JsonPart([1, 2]),)), 6),
        (Message.user((JsonPart("天气"),)), 4),
        (Message.assistant((ProviderPart("anthropic", {"type": "x"}),)), 13),
    ],
)
def test_message_tokens_counts_everything_that_is_sent_and_the_overhead(message, tokens):
    assert message_tokens(CharacterCounter(), message) == MESSAGE_OVERHEAD + tokens


CIRCLE: list = []
CIRCLE.append(CIRCLE)


@for_each(
    "value",
    [
        {1, 2},
        b"bytes",
        {(1, 2): 3},
        CIRCLE,
        nested(100_000),
        MappingProxyType({"a": 1}),
        float("nan"),
        "\ud800",
    ],
)
def test_a_value_that_is_not_json_is_counted(value):
    assert message_tokens(ApproximateCounter(), Message.user((JsonPart(value),))) > MESSAGE_OVERHEAD


def test_a_lone_surrogate_is_counted_at_any_position():
    message = Message.assistant("\ud800", [ToolCall("id", "\udfff", '"\ud83d')])
    assert message_tokens(ApproximateCounter(), message) > 2 * MESSAGE_OVERHEAD
