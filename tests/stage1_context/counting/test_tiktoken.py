import hashlib
import os
import random
from pathlib import Path

import pytest

from stage1_context import ContextError, TiktokenCounter
from tests.stage1_context.counting.samples import CHINESE, JAPANESE
from tests.tables import for_each

O200K = "fb374d419588a4632f3f557e76b4b70aebbca790"


@for_each("model", ["gpt-4o", "openai:gpt-4o", "o200k_base"])
@for_each("folder", ["", "empty", "missing/folder"])
def test_a_missing_encoding_file_raises_an_error_and_is_not_downloaded(
    monkeypatch, tmp_path, model, folder
):
    (tmp_path / "empty").mkdir(exist_ok=True)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / folder) if folder else "")
    with pytest.raises(
        ContextError,
        match=r"'o200k_base' is missing or damaged\. Set TIKTOKEN_CACHE_DIR .*ApproximateCounter",
    ):
        TiktokenCounter(model)


def test_an_encoding_with_an_unknown_file_name_raises_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(ContextError, match="'p50k_base' is missing or damaged"):
        TiktokenCounter("text-davinci-003")


def test_an_unknown_model_raises_an_error_that_names_it():
    with pytest.raises(
        ContextError, match=r"does not know the model 'llama3\.2'\. Use ApproximateCounter"
    ):
        TiktokenCounter("ollama:llama3.2")


def test_a_damaged_file_raises_an_error_and_is_neither_deleted_nor_downloaded(
    monkeypatch, tmp_path
):
    file = tmp_path / O200K
    file.write_text("cut off")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(ContextError, match="o200k_base"):
        TiktokenCounter("gpt-4o")
    assert file.read_text() == "cut off"


def test_the_name_of_the_cache_file_is_the_one_that_tiktoken_uses():
    address = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
    assert hashlib.sha1(address.encode()).hexdigest() == O200K


@pytest.fixture(scope="module")
def bytewise():
    """A test encoding: every byte is a token, `ab` is one token, and one token is special."""
    import tiktoken

    ranks = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256}
    return tiktoken.Encoding(
        "bytewise",
        pat_str=r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+",
        mergeable_ranks=ranks,
        special_tokens={"<|end|>": 257},
    )


@for_each(
    "text, tokens",
    [("", 0), ("abc", 2), ("<|end|>", 7), ("\0", 1), ("中", 3), ("\ud800", 3), ("a\udc00b", 5)],
)
def test_an_encoding_object_can_be_used_directly(bytewise, text, tokens):
    counter = TiktokenCounter(bytewise)
    assert counter.count(text) == tokens


@for_each("unit", ["ab", "ab, ", "ab\n"])
def test_long_texts_are_counted_in_blocks_with_the_same_total(bytewise, unit):
    text = unit * 100_000
    assert TiktokenCounter(bytewise).count(text) == 100_000 * (len(unit) - 1)


@for_each("text", [" " * 1_000_000, "\t" * 1_000_000 + "x", "中" * 333_333])
def test_a_very_long_run_of_one_character_neither_fails_nor_hangs(bytewise, text):
    assert TiktokenCounter(bytewise).count(text) == len(text.encode())


@pytest.fixture(params=["cl100k_base", "o200k_base"])
def real(request):
    try:
        return TiktokenCounter(request.param)
    except ContextError:
        pytest.skip(f"no file of {request.param} in {os.environ.get('TIKTOKEN_CACHE_DIR')!r}")


def test_the_counts_are_those_of_tiktoken(real):
    assert [real.count(text) for text in ("", "hello world", "1234567", "<|endoftext|>")] == [
        0,
        2,
        3,
        7,
    ]


def test_counting_in_blocks_does_not_change_the_count_of_ordinary_texts(real):
    text = CHINESE + JAPANESE + Path(__file__).read_text("utf-8") * 5
    assert real.count(text) == len(real._encoding.encode_ordinary(text))


@for_each("unit", ["a", " ", "中", "="])
def test_counting_a_long_run_in_blocks_differs_by_at_most_two_tokens_per_block(real, unit):
    whole = len(real._encoding.encode_ordinary(unit * 50_000))
    assert abs(real.count(unit * 50_000) - whole) <= 2 * 50


def test_words_in_any_order_have_the_count_of_tiktoken(real):
    dice = random.Random(5)
    words = [
        "word",
        "it's",
        " ",
        "\n",
        "  ",
        "é",
        "中文",
        "，",
        "'",
        "12345",
        "!?",
        "\t",
        "e\u0301",
        "हिन्दी",
        "/",
    ]
    text = "".join(dice.choice(words) for _ in range(20_000))
    assert real.count(text) == len(real._encoding.encode_ordinary(text))
