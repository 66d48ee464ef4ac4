"""Open a run file to append to it; refuse every other file.

A wrong path must not damage another file. So the beginning of an existing file is compared with the
header of a run before anything is written. Used by `run_file`.
"""

import os
import re
import stat
from io import FileIO
from pathlib import Path

from llm_stages.runs.problem import RunFileError
from stage0_gateway import private_opener

_HEADER = re.compile(rb'\{"type":"run","run":"[0-9a-f]{8}","turn":\d+,"at":[\d.e-]+,"version":\d')
_FIRST_BYTES = b'{"type":"run","run":"00000000","turn":'
_RUN_ID = slice(21, 29)
_BEGINNING = 1_000  # bytes; the compared part of a header is shorter
_CHUNK = 65_536

_SINKS = ("/dev/null", "/dev/full")
"""Devices that store nothing."""

_OPEN_FILES = ("/dev/std", "/dev/fd/", "/proc/")
"""Other names of the open files of a process, such as its standard output."""


def open_run_file(path: Path) -> FileIO:
    """Open or create a run file, and remove what a killed program left behind its last line.

    A new file can be read by its owner only. A symbolic link may lead to an existing run file.

    Raises:
        RunFileError: The file is not a run file, or not a regular file. It was not changed.
        OSError: The file cannot be opened.
    """
    if os.path.abspath(path).startswith(_OPEN_FILES):
        raise RunFileError(path, "it is not a run file, but an open file of this process.")
    if os.path.realpath(path) in _SINKS:
        return FileIO(path, "a")
    try:
        return FileIO(path, "x+", opener=_append)
    except FileExistsError:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise RunFileError(path, "it is not a run file, but a folder or a device.") from None
    file = FileIO(path, "r+", opener=_append)
    try:
        _remove_incomplete_line(file, path)
    except BaseException:
        file.close()
        raise
    return file


def _append(path: str, flags: int) -> int:
    return private_opener(path, flags | os.O_APPEND)


def _remove_incomplete_line(file: FileIO, path: Path) -> None:
    beginning = file.read(_BEGINNING)
    if not (_HEADER.match(beginning) or _is_cut_header(beginning)):
        problem = "it is not a run file, because its first line is not the header of a run."
        raise RunFileError(path, problem)
    end = size = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - _CHUNK)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        file.truncate(end)


def _is_cut_header(content: bytes) -> bool:
    """Return whether the beginning of a file is that of a header without its end."""
    digits = re.sub(rb"[0-9a-f]", b"0", content[_RUN_ID])
    compared = content[: _RUN_ID.start] + digits + content[_RUN_ID.stop : len(_FIRST_BYTES)]
    return b"\n" not in content and _FIRST_BYTES.startswith(compared)
