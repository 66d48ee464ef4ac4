"""`TiktokenCounter`: count tokens exactly, in an encoding of OpenAI.

tiktoken would download a missing file without a timeout. This module therefore verifies the file
first and never uses the network. It does not know messages.
"""

import os
import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from stage1_context.errors import ContextError

if TYPE_CHECKING:
    import tiktoken

# The name of tiktoken's download (the SHA-1 of its address), and the SHA-256 of its content.
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

# Long texts are counted in blocks. Some releases of tiktoken need quadratic time for a long run of
# letters, and fail at about 500,000 spaces. A block ends between a letter and a following space or
# punctuation mark, where OpenAI's encodings always start a new piece, so the sum is exact. Only a
# run without such a position is divided elsewhere.
_BLOCK = re.compile(
    r"[\s\S]{1,999}[^\W_](?=[ \n!-&(-/:-@\[-`{-~，。、！？；：）」])|[\s\S]{1,1000}"
)


class TiktokenCounter:
    """Counts tokens exactly if tiktoken's file for the encoding is available.

    The time is proportional to the length of the text. In a run of more than 1,000 letters, spaces
    or punctuation marks, the count may differ from tiktoken's by one or two tokens per 1,000. A
    custom `Encoding` may differ at the ends of such blocks as well. Lone surrogates, which cannot
    be sent, count as the replacement character.

    Args:
        model: The name of a model, with or without our provider prefix; the name of an encoding,
            such as "o200k_base"; or a `tiktoken.Encoding`.

    Raises:
        ContextError: The model is unknown, or the file is missing or damaged in
            `TIKTOKEN_CACHE_DIR`.
    """

    def __init__(self, model: "str | tiktoken.Encoding") -> None:
        if isinstance(model, str):
            self._encoding = _load(_encoding_name(model.rpartition(":")[2]))
        else:
            self._encoding = model

    def count(self, text: str) -> int:
        """Return the number of tokens. Special tokens count as plain text."""
        encode = self._encoding.encode_ordinary
        if len(text) <= 1000:
            return len(encode(text))
        return sum(len(encode(block)) for block in _BLOCK.findall(text))


def _encoding_name(model: str) -> str:
    import tiktoken  # slow to import

    if model in _FILES:
        return model
    try:
        return tiktoken.encoding_name_for_model(model)
    except KeyError:
        raise ContextError(
            f"tiktoken does not know the model {model!r}. Use ApproximateCounter()."
        ) from None


def _load(encoding: str) -> "tiktoken.Encoding":
    import tiktoken

    if not _is_available(encoding):
        raise ContextError(
            f"The file of the encoding {encoding!r} is missing or damaged. Set TIKTOKEN_CACHE_DIR "
            f"to a folder that contains it; tiktoken.get_encoding({encoding!r}) downloads it. "
            "Or use ApproximateCounter()."
        )
    return tiktoken.get_encoding(encoding)


def _is_available(encoding: str) -> bool:
    """Return whether tiktoken would use a local file instead of downloading it."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR")
    if not folder or encoding not in _FILES:
        return False
    name, checksum = _FILES[encoding]
    file = Path(folder) / name
    return file.is_file() and sha256(file.read_bytes()).hexdigest() == checksum
