import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import DocumentPart, ImagePart, JsonPart, Message, TextPart, ThinkingPart, ToolCall
from stage1_context import ApproximateCounter, ContextError, TiktokenCounter
from stage1_context.tokens import IMAGE_TOKENS, MESSAGE_OVERHEAD, message_tokens

APPROXIMATE = ApproximateCounter()
O200K = "fb374d419588a4632f3f557e76b4b70aebbca790"


class Letters:
    def count(self, text):
        return len(text)


# What cl100k_base or o200k_base cannot go below: digits in threes, one for each Chinese character, …
AT_LEAST = {
    "words": ("The quick brown fox jumps over the lazy dog.", 10),
    "chinese": ("今天上海的天气怎么样？请用中文回答我。", 19),
    "japanese": ("東京の天気を教えてください", 13),
    "digits": ("1234567890" * 10, 34),
    "code": ("for (let i=0; i<n; i++) { a[i] += b[i]; }", 25),
    "json": ('{"city": "Shanghai", "days": 3, "units": null}', 14),
    "emoji": ("🦆🧬🪐🛰", 8),
    "accents": ("áéíóúñ", 3),
    "camel case": ("getUserAccountBalanceByName", 5),
    "special": ("<|endoftext|>", 5),
}


@pytest.mark.parametrize(("text", "least"), AT_LEAST.values(), ids=AT_LEAST)
def test_an_approximate_count_is_not_low(text, least):
    assert APPROXIMATE.count(text) >= least


@given(st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF)))
def test_chinese_takes_at_least_a_token_for_each_character(text):
    assert APPROXIMATE.count(text) >= len(text)


def test_an_approximate_count_of_prose_is_not_wildly_high():
    assert APPROXIMATE.count("The weather in the city is sunny and warm today. " * 10) <= 150


@pytest.mark.parametrize("text", ["\n \t" * 1000, " " * 10_000], ids=["mixed", "spaces"])
def test_long_white_space_is_not_free(text):
    # No token of any of tiktoken's encodings is longer than 128 characters.
    assert APPROXIMATE.count(text) >= len(text) // 128


@given(st.text(), st.text())
def test_any_text_has_a_positive_count_that_grows_with_the_text(text, more):
    assert 1 <= APPROXIMATE.count(text) <= APPROXIMATE.count(text + "\n" + more)


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (Message.user("12345"), 5),
        (Message.tool("123", "an id that is not counted"), 3),
        (Message.assistant("12", [ToolCall("id", "name", "{}"), ToolCall("id2", "f", "{1}")]), 2 + 10 + 8),
        (Message.assistant("only what is meant", raw_text="1234"), 4),
        (Message.user((TextPart("12"), ThinkingPart("345"))), 5),
        (Message.user((ImagePart(data="x" * 9999),)), IMAGE_TOKENS),
        (Message.user((DocumentPart("x" * 400),)), 100),
        (Message.user((JsonPart([1, 2]),)), 6),
    ],
    ids=["text", "result", "calls", "raw text", "parts", "image", "document", "json"],
)
def test_a_message_takes_its_overhead_and_all_that_is_sent_of_it(message, tokens):
    assert message_tokens(Letters(), message) == MESSAGE_OVERHEAD + tokens


def test_a_counter_says_what_it_is():
    assert repr(APPROXIMATE) == "ApproximateCounter()"


@pytest.mark.parametrize("model", ["gpt-4o", "openai:gpt-4o", "o200k_base"])
@pytest.mark.parametrize("folder", ["", "empty", "missing/folder"])
def test_without_its_file_tiktoken_is_refused_and_nothing_is_fetched(monkeypatch, tmp_path, model, folder):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / folder) if folder else "")
    with pytest.raises(
        ContextError, match=r"'o200k_base' is not at hand\. Set TIKTOKEN_CACHE_DIR .*ApproximateCounter"
    ):
        TiktokenCounter(model)


def test_an_encoding_whose_file_name_is_not_known_is_refused_too(monkeypatch, tmp_path):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(ContextError, match="'p50k_base' is not at hand"):
        TiktokenCounter("text-davinci-003")


def test_a_model_that_tiktoken_does_not_know_is_named():
    with pytest.raises(ContextError, match=r"does not know the model 'llama3\.2'\. Use ApproximateCounter"):
        TiktokenCounter("ollama:llama3.2")


def test_a_damaged_file_is_refused_kept_and_not_fetched(monkeypatch, tmp_path):
    file = tmp_path / O200K
    file.write_text("cut off")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(ContextError, match="o200k_base"):
        TiktokenCounter("gpt-4o")
    assert file.read_text() == "cut off"


def exact():
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", "")
    if not folder or not (Path(folder) / O200K).is_file():
        pytest.skip("the file of o200k_base is not in $TIKTOKEN_CACHE_DIR")
    return TiktokenCounter("openai:gpt-4o")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("hello world", 2), ("1234567", 3)],
    ids=["empty", "words", "digits"],
)
def test_tiktoken_counts_exactly(text, tokens):
    counter = exact()
    assert repr(counter) == "TiktokenCounter('o200k_base')"
    assert counter.count(text) == tokens


def test_tiktoken_counts_a_special_token_as_plain_text():
    assert exact().count("<|endoftext|>") > 1


@pytest.mark.parametrize("text", [text for text, _ in AT_LEAST.values()], ids=AT_LEAST)
def test_an_approximate_count_is_never_below_the_exact_one(text):
    assert APPROXIMATE.count(text) >= exact().count(text)


def test_the_file_we_look_for_is_the_one_tiktoken_looks_for():
    address = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
    assert hashlib.sha1(address.encode()).hexdigest() == O200K
