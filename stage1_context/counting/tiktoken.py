"""`TiktokenCounter`: exactly how many tokens a text takes, in an encoding of OpenAI's.

tiktoken would download a file that is missing, without a timeout; so we look for the file, whole,
before tiktoken does, and the network is used only by those who ask for it. Knows nothing of
messages; used where an approximate count is not good enough.
"""

import os
import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from stage1_context.errors import ContextError

if TYPE_CHECKING:
    import tiktoken

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

# Long texts are counted in blocks: releases of tiktoken take time with the square of a run of
# letters, and panic at some 500,000 spaces. A block ends where OpenAI's encodings begin a new piece
# anyway, between a letter and a space or sign behind it, so that the sum is exact; only in a run
# without such a place it ends anywhere.
_BLOCK = re.compile(
    r"[\s\S]{1,999}[^\W_](?=[ \n!-&(-/:-@\[-`{-~，。、！？；：）」])|[\s\S]{1,1000}"
)


class TiktokenCounter:
    """Counts exactly, in a model's own encoding, where tiktoken's file for it is at hand.

    Takes time in proportion to the text. In a run of more than 1,000 letters, spaces or signs
    without a break the count may differ from tiktoken's by a token or two for each 1,000. Lone
    surrogates, which cannot be sent, are counted as the replacement character. An `Encoding` of
    your own with other rules for pieces may differ at the ends of the 1,000 characters, too.

    Args:
        model: A model's name, with or without our provider prefix; an encoding's, such as
            "o200k_base"; or a `tiktoken.Encoding` that you have built.
        download: Let tiktoken fetch a file that is missing. Its download knows no timeout: it may
            hang for as long as the network does, and holds up the event loop while it lasts.

    Raises:
        ContextError: tiktoken does not know the model, its file is not whole in
            `TIKTOKEN_CACHE_DIR`, or it could not be fetched.
    """

    def __init__(self, model: "str | tiktoken.Encoding", *, download: bool = False) -> None:
        if isinstance(model, str):
            self._encoding = _load(_encoding_name(model.rpartition(":")[2]), download)
        else:
            self._encoding = model
        self.encoding_name = self._encoding.name

    def count(self, text: str) -> int:
        """Exactly how many tokens this text takes; special tokens in it are counted as plain
        text.
        """
        encode = self._encoding.encode_ordinary
        if len(text) <= 1000:
            return len(encode(text))
        return sum(len(encode(block)) for block in _BLOCK.findall(text))

    def __repr__(self) -> str:
        return f"TiktokenCounter({self.encoding_name!r})"


def _encoding_name(model: str) -> str:
    import tiktoken  # at first use: an approximate counter needs none of it

    if model in _FILES:
        return model
    try:
        return tiktoken.encoding_name_for_model(model)
    except KeyError:
        raise ContextError(
            f"tiktoken does not know the model {model!r}. Use ApproximateCounter()."
        ) from None


def _load(encoding: str, download: bool) -> "tiktoken.Encoding":
    import tiktoken

    if not download and not _is_at_hand(encoding):
        raise ContextError(
            f"The file of the encoding {encoding!r} is not at hand. Set TIKTOKEN_CACHE_DIR to a folder that "
            "holds it whole (TiktokenCounter(..., download=True) fetches it there once), or use "
            "ApproximateCounter()."
        )
    try:
        return tiktoken.get_encoding(encoding)
    except Exception as error:  # whatever its HTTP library, a full disk or a damaged answer raise
        raise ContextError(
            f"The file of the encoding {encoding!r} could not be fetched ({type(error).__name__}). "
            "Use ApproximateCounter()."
        ) from error


def _is_at_hand(encoding: str) -> bool:
    """Whether tiktoken would find its file; a missing or damaged one it would fetch from the
    network.
    """
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", "")
    name, checksum = _FILES.get(encoding, ("", ""))
    file = Path(folder) / name
    return (
        bool(folder and name)
        and file.is_file()
        and sha256(file.read_bytes()).hexdigest() == checksum
    )
