"""How many tokens a text takes, so that a window can be filled and not overfilled.

Two counters behind one protocol. `TiktokenCounter` is exact where tiktoken's files are at hand;
`ApproximateCounter` needs nothing and errs on the high side. Neither ever waits for a network: tiktoken
would download a missing file without a timeout, so we look for the file first.
"""

import json
import os
import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stage0_gateway import DocumentPart, ImagePart, JsonPart, Message, ProviderPart
from stage1_context.errors import ContextError

if TYPE_CHECKING:
    import tiktoken

MESSAGE_OVERHEAD = 4
"""Tokens a chat format adds around each message: role, separators."""

IMAGE_TOKENS = 1000
"""Tokens a picture is taken for; providers charge by its size, which we do not look at."""


class TokenCounter(Protocol):
    """Anything that counts the tokens of a text."""

    def count(self, text: str) -> int:
        """How many tokens this text takes; never negative."""


def message_tokens(counter: TokenCounter, message: Message) -> int:
    """What one message takes in a request, its tool calls and overhead included."""
    total = MESSAGE_OVERHEAD + sum(
        counter.count(call.name + call.arguments) + 4 for call in message.tool_calls
    )
    if message.raw_text is not None:
        return total + counter.count(message.raw_text)
    if isinstance(message.content, str):
        return total + counter.count(message.content)
    for part in message.content:
        match part:
            case ImagePart():
                total += IMAGE_TOKENS
            case DocumentPart(data):
                total += len(data) // 4 if data else IMAGE_TOKENS
            case JsonPart(value) | ProviderPart(_, value):
                total += counter.count(json.dumps(value, ensure_ascii=False, default=str))
            case _:
                total += counter.count(part.text)
    return total


# A word or the piece of one between capitals; up to three digits; a run of spaces; any other single sign.
_PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]{1,3}|\s+|[^A-Za-z0-9\s]")
_LETTERS_PER_TOKEN = 6
_CJK, _ASTRAL = "\u2e80", "\U00010000"


class ApproximateCounter:
    """Counts by the kinds of characters, with no files; deliberately not low.

    A token for each six letters a word begins, for each three digits, for each sign and each letter of other
    alphabets; CJK characters take 1.3, emoji and other characters beyond the first plane 3.
    """

    def count(self, text: str) -> int:
        """About how many tokens this text takes."""
        return int(sum(map(_weight, _PIECE.findall(text)))) + 1

    def __repr__(self) -> str:
        return "ApproximateCounter()"


def _weight(piece: str) -> float:
    first = piece[0]
    if first.isspace():
        return 0 if piece == " " else 1 + len(piece) // 4  # a single space belongs to the word behind it
    if first.isascii():
        return 1 + (len(piece) - 1) // _LETTERS_PER_TOKEN
    return 1 if first < _CJK else 1.3 if first < _ASTRAL else 3


# tiktoken keeps its downloads under the SHA-1 of their address, and knows each one's SHA-256.
_FILES = {
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
}


class TiktokenCounter:
    """Counts exactly, in a model's own encoding, where tiktoken's file for it is at hand.

    Args:
        model: A model's name, with or without our provider prefix, or an encoding such as "o200k_base".

    Raises:
        ContextError: tiktoken does not know the model, or its file is not in `TIKTOKEN_CACHE_DIR`.
    """

    def __init__(self, model: str) -> None:
        self.encoding_name = _encoding_name(model.rpartition(":")[2])
        self._encoding = _load(self.encoding_name)

    def count(self, text: str) -> int:
        """Exactly how many tokens this text takes; special tokens in it are counted as plain text."""
        return len(self._encoding.encode_ordinary(text))

    def __repr__(self) -> str:
        return f"TiktokenCounter({self.encoding_name!r})"


def _encoding_name(model: str) -> str:
    import tiktoken  # at first use: an approximate counter needs none of it

    if model in _FILES:
        return model
    try:
        return tiktoken.encoding_name_for_model(model)
    except KeyError:
        raise ContextError(f"tiktoken does not know the model {model!r}. Use ApproximateCounter().") from None


def _load(encoding: str) -> "tiktoken.Encoding":
    import tiktoken

    if not _is_at_hand(encoding):
        raise ContextError(
            f"The file of the encoding {encoding!r} is not at hand. Set TIKTOKEN_CACHE_DIR to a folder that "
            "holds it whole (tiktoken.get_encoding downloads it there once), or use ApproximateCounter()."
        )
    return tiktoken.get_encoding(encoding)


def _is_at_hand(encoding: str) -> bool:
    """Whether tiktoken would find its file; a missing or damaged one it would fetch from the network."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", "")
    name, checksum = _FILES.get(encoding, ("", ""))
    file = Path(folder) / name
    return bool(folder and name) and file.is_file() and sha256(file.read_bytes()).hexdigest() == checksum
