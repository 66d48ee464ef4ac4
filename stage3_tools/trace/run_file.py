"""`RunFile`: a file to which runs are appended, as JSON lines.

    RunFile("run.jsonl")   passed as `trace=` to `run_tool_loop`, `ask`, `run_events`, a runner or a
                           chain

Each line is one JSON object and is written at once, so a killed program leaves a readable file. The
schema of a line is `run.schema.json`. A failed write, such as on a full disk, ends the tracing with
a warning, and not the run. This module does not know what a line contains; `recorder` writes the
lines.
"""

import os
import warnings
import weakref
from collections.abc import Iterable
from io import FileIO
from pathlib import Path

from stage3_tools.run.state import RunState
from stage3_tools.trace.recorder import RunRecorder
from stage3_tools.trace.values import RunParent

_CHUNK = 65_536


class RunFile:
    """Writes runs to a file. Runs may use it one after the other, or at the same time.

    The file contains all messages, arguments and results. The keys of the gateway are hidden.

    Args:
        path: The file. Runs are appended to an existing one.
        secrets: Further texts to hide.
        parent: The run and the turn from which the runs of this file were forked.

    Attributes:
        path: The file.
        error: The error that ended the tracing, or None.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        secrets: Iterable[str] = (),
        parent: RunParent | None = None,
    ) -> None:
        self.path = Path(path)
        self.error: OSError | None = None
        self._parent = parent
        self._secrets = (secrets,) if isinstance(secrets, str) else tuple(secrets)
        self._hashes: set[str] = set()
        self._file: FileIO | None = None

    def start(self, run: RunState) -> RunRecorder:
        """Follow a run; called by the run itself.

        Raises:
            OSError: The file cannot be opened.
        """
        self._open()
        recorder = RunRecorder(run, self._write, self._hashes, self._secrets, self._parent)
        run.deps, run.options = recorder.wrap_deps(run.deps), recorder.wrap_options(run.options)
        return recorder

    def _write(self, line: bytes) -> None:
        """Append a line. After a failure, nothing more is written."""
        if self.error is not None:
            return
        try:
            written = (self._file or self._open()).write(line)
            if written != len(line):
                raise OSError(f"Only {written} of {len(line)} bytes were written.")
        except OSError as error:
            self.error = error
            warnings.warn(f"{self.path} is not written any more: {error}", stacklevel=2)

    def close(self) -> None:
        """Close the file. A further run opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> FileIO:
        if self._file is None:
            self._file = FileIO(self.path, "a+")
            weakref.finalize(self, self._file.close)
            _remove_incomplete_line(self._file)
        return self._file

    def __repr__(self) -> str:
        return f"RunFile({str(self.path)!r})"


def _remove_incomplete_line(file: FileIO) -> None:
    """Remove what a killed program left behind the last complete line."""
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
