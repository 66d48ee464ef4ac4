"""Create files that only their owner may read.

Conversations are personal, but the usual umask lets every user of the machine read a new file. All
stages create their files with this module: recordings, sessions, run files and pages. A file that
exists keeps its mode.
"""

import os


def private_opener(path: str, flags: int) -> int:
    """Open a file; a new one has the mode 0600. For `open(path, "w", opener=private_opener)`."""
    return os.open(path, flags, 0o600)


def write_private(path: str | os.PathLike[str], text: str) -> None:
    """Write a text to a file in UTF-8; a new file has the mode 0600.

    Raises:
        OSError: The file cannot be written.
    """
    with open(path, "w", encoding="utf-8", opener=private_opener) as file:
        file.write(text)
