import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import ImagePart, Message, TextPart, ToolCall
from stage1_context import ApproximateCounter, Counted, message_tokens
from stage1_context.counting.truncate import SHORTEST, truncate_messages, truncate_text


class Letters:
    """Each letter is a token; records the number of calls."""

    def __init__(self):
        self.calls = 0

    def count(self, text):
        self.calls += 1
        return len(text)


def counted(*messages, counter=None):
    counter = counter or Letters()
    return [
        Counted(each, message_tokens(counter, each), place) for place, each in enumerate(messages)
    ]


@pytest.mark.parametrize(
    ("text", "length", "cut"),
    [
        ("abcdef", 6, "abcdef"),
        ("", 0, ""),
        ("abcdefghi", 6, "abcd\n[… 3 characters were cut here …]\nhi"),
        ("abcdefghi", 1, "\n[… 8 characters were cut here …]\ni"),
        ("abcdefghi", 0, "\n[… 9 characters were cut here …]\n"),
        ("x" * 3000, 0, "\n[… 3,000 characters were cut here …]\n"),
        ("北京的天气很好", 3, "北京\n[… 4 characters were cut here …]\n好"),
    ],
)
def test_the_middle_of_a_text_is_replaced_by_a_note_with_the_number_of_characters(
    text, length, cut
):
    assert truncate_text(text, length) == cut


@given(st.text(), st.integers(0, 50))
def test_the_beginning_and_the_end_of_a_cut_text_are_kept(text, length):
    cut = truncate_text(text, length)
    if len(text) <= length:
        assert cut == text
        return
    note = f"\n[… {len(text) - length:,} characters were cut here …]\n"
    head = length * 2 // 3
    assert cut == text[:head] + note + text[len(text) - (length - head) :]


CALL = Message.assistant("x" * 500, [ToolCall("a", "f", "y" * 500)])


def test_the_longest_texts_are_cut_first_and_only_as_many_as_necessary():
    short, longer, longest = (
        Message.user("a" * 100),
        Message.user("b" * 600),
        Message.user("c" * 1000),
    )
    whole = counted(short, longer, longest)
    first, second, third = truncate_messages(whole, 1300, Letters())
    assert (first, second) == (whole[0], whole[1])
    assert "characters were cut here" in third.message.text
    first, second, third = truncate_messages(whole, 500, Letters())
    assert first == whole[0]
    assert ("cut here" in second.message.text, "cut here" in third.message.text) == (True, True)
    assert whole == counted(short, longer, longest)


def test_messages_that_fit_are_unchanged():
    whole = counted(Message.user("a" * 100))
    assert truncate_messages(whole, 104, Letters()) == whole


@pytest.mark.parametrize("budget", [300, 1000, 5000, 40_000])
@pytest.mark.parametrize(
    "counter", [Letters(), ApproximateCounter()], ids=["letters", "approximate"]
)
def test_a_text_is_cut_no_shorter_than_necessary(budget, counter):
    whole = counted(Message.user("some words, " * 20_000), counter=counter)
    (cut,) = truncate_messages(whole, budget, counter)
    assert 0.95 * budget <= cut.tokens <= budget


def test_only_a_few_lengths_are_tried():
    counter = Letters()
    whole = counted(Message.user("x" * 1_000_000))
    assert truncate_messages(whole, 300_000, counter)
    assert counter.calls <= 12


def test_a_cut_message_keeps_its_index_and_has_its_new_token_count():
    result = Message.tool("x" * 1000, "a", is_error=True, name="f")
    cut = truncate_messages(counted(Message.user("hi"), result), 300, Letters())[1]
    assert cut == Counted(
        Message.tool(cut.message.text, "a", is_error=True, name="f"), 4 + len(cut.message.text), 1
    )


@pytest.mark.parametrize(
    "message",
    [
        Message.assistant("", [ToolCall("a", "f", "x" * 500)]),
        Message.assistant("x" * 500, [ToolCall("a", "f")], raw_text="y" * 500),
        Message.user((ImagePart(url="https://example.com/cat.png"),)),
        Message.user("x" * SHORTEST),
        Message.user("x" * (SHORTEST + 30)),  # the note would be longer than the removed text
    ],
    ids=[
        "calls",
        "raw text of calls",
        "an image",
        "short text",
        "text as long as a note",
    ],
)
def test_calls_raw_texts_images_and_short_texts_are_not_cut(message):
    (whole,) = counted(message)
    assert truncate_messages([whole], whole.tokens - 1, Letters()) is None
    longer = counted(message, Message.user("z" * 2000))
    cut = truncate_messages(longer, longer[0].tokens + 500, Letters())
    assert (cut[0], "cut here" in cut[1].message.text) == (longer[0], True)


PICTURE = ImagePart(url="https://example.com/cat.png")


@pytest.mark.parametrize(
    ("message", "cut"),
    [
        (
            Message.user((TextPart("short"), PICTURE, TextPart("x" * 500))),
            lambda text: Message.user((TextPart("short"), PICTURE, TextPart(text))),
        ),
        (
            Message.assistant("x" * 500, [ToolCall("a", "f", "{}")]),
            lambda text: Message.assistant(text, [ToolCall("a", "f", "{}")]),
        ),
        (Message.assistant("x" * 500, raw_text="y" * 500), Message.assistant),
        (
            Message.tool((TextPart("x" * 500),), "a", name="f"),
            lambda text: Message.tool((TextPart(text),), "a", name="f"),
        ),
    ],
    ids=["parts", "text beside calls", "raw text", "a result of parts"],
)
def test_the_longest_text_of_a_message_is_cut_and_the_rest_is_kept(message, cut):
    (whole,) = counted(message)
    (shorter,) = truncate_messages([whole], whole.tokens - 200, Letters())
    assert shorter.tokens <= whole.tokens - 200
    text = max(
        (shorter.message.content,)
        if isinstance(shorter.message.content, str)
        else (part.text for part in shorter.message.content if isinstance(part, TextPart)),
        key=len,
    )
    assert "characters were cut here" in text
    assert shorter.message == cut(text)


@pytest.mark.parametrize("tokens", [-100, 0, 4 + SHORTEST])
def test_messages_that_do_not_fit_even_when_cut_return_none(tokens):
    assert truncate_messages(counted(Message.user("x" * 1000)), tokens, Letters()) is None


@given(st.lists(st.integers(0, 300), max_size=4), st.integers(-10, 900))
def test_cut_messages_fit_unless_even_the_shortest_versions_do_not(lengths, budget):
    whole = counted(*(Message.user("x" * length) for length in lengths))
    shortest = sum(
        4 + min(length, len(truncate_text("x" * length, SHORTEST))) for length in lengths
    )
    cut = truncate_messages(whole, budget, Letters())
    assert (cut is None) == (shortest > budget)
    assert cut is None or sum(each.tokens for each in cut) <= budget
