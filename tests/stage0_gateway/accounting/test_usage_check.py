from stage0_gateway import ChatRequest, ImagePart, Message, TextPart, Usage
from stage0_gateway.accounting.usage_check import unread_tokens
from stage0_gateway.http.encode import encode_request
from stage0_gateway.http.endpoint import resolve
from tests.tables import for_each


def unread(text, read, **usage):
    """Return the unread tokens of a text if a server reports this number of input tokens."""
    return unread_of([Message.user(text)], Usage(input_tokens=read, **usage))


def unread_of(messages, usage):
    request = ChatRequest("m", tuple(messages))
    body = encode_request(resolve("ollama:m"), request, stream=False).body
    return unread_tokens(request, body, usage)


WORDS = "word " * 9_999 + "word"


def test_a_truncated_prompt_is_detected_with_a_lower_bound_of_the_missing_tokens():
    assert unread(WORDS, 4096) == 10_000 - 4096


@for_each("read", [9_000, 10_000, 11_000, 20_000])
def test_a_prompt_that_was_read_completely_is_not_reported(read):
    assert unread(WORDS, read) is None


def test_all_messages_are_counted():
    messages = [
        Message.system(WORDS),
        Message.user("hi"),
        Message.assistant(WORDS),
        Message.user("hi"),
    ]
    assert unread_of(messages, Usage(input_tokens=2048)) == 19_999 - 2048


@for_each(
    "text",
    [
        # Chinese
        "你好，世界。今天天气怎么样？" * 500,
        # Thai
        "สวัสดีชาวโลก" * 500,
        # emoji
        "😀🎉" * 2000,
    ],
)
def test_scripts_without_spaces_are_counted_by_bytes(text):
    assert unread(text, 100) is not None
    assert unread(text, len(text)) is None


@for_each("usage", [None, Usage(), Usage(input_tokens=0), Usage(output_tokens=5)])
def test_a_server_that_reports_no_usage_is_not_reported(usage):
    assert unread_of([Message.user(WORDS)], usage) is None


def test_a_server_that_reports_cached_tokens_is_not_reported():
    assert unread(WORDS, 10, cached_input_tokens=9_990) is None
    assert unread(WORDS, 10, cached_input_tokens=0) is None


@for_each(
    "text, read",
    [
        # short
        ("hi", 1),
        # usual
        ("hi", 8),
        # one long word
        ("a" * 100_000, 500),
        # a long line
        ("=" * 100_000, 800),
        # empty lines
        ("\n" * 50_000, 100),
        # numbers
        ("1234 " * 100, 250),
    ],
)
def test_texts_with_few_tokens_for_their_length_are_not_reported(text, read):
    assert unread(text, read) is None


def test_an_image_is_not_counted_as_text():
    picture = ImagePart("A" * 1_000_000)
    assert (
        unread_of([Message.user((TextPart("what is this?"), picture))], Usage(input_tokens=300))
        is None
    )


def test_half_a_surrogate_pair_is_accepted():
    assert unread("\ud83d word " * 10_000, 4096) is not None
