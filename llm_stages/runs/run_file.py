"""`RunFile`: a file to which runs are appended, as JSON lines.

    RunFile("run.jsonl")   passed as `trace=` to `run_tool_loop`, `ask`, `run_events`, a runner or a
                           chain; it is a listener of their events

Each line is one JSON object and is written at once, so a killed program leaves a readable file. The
schema of a line is `run.schema.json`. A failed write, such as on a full disk, ends the tracing with
a warning, and not the run. This module does not know what a line contains; `writer` writes the
lines.
"""

import os
import warnings
import weakref
from collections.abc import Iterable
from io import FileIO
from pathlib import Path

from llm_stages.runs.opening import open_run_file
from llm_stages.runs.values import RunParent
from llm_stages.runs.writer import UNUSED_EVENTS, RunWriter
from stage3_tools import LoopEnded, LoopEvent, RunStarted

_SHORTEST = 4
_MAX_FAILED = 64
"""The number of failed runs that can still be continued; a run may fail without being continued."""


class RunFile:
    """Writes runs to a file. Runs may use it one after the other, or at the same time.

    The file contains all messages, arguments and results. A new one can be read by its owner only.
    The keys of the gateway are hidden. If `chat` is a function of the program, the keys of all
    gateways are.

    Args:
        path: The file. Runs are appended to an existing run file; any other file is refused.
        hide: Further texts to hide, of at least four characters.
        parent: The run and the turn from which the runs of this file were forked.

    Attributes:
        path: The file.
        error: The error that ended the tracing, or None.

    Raises:
        ValueError: A text to hide is shorter than four characters.
        TypeError: The path is not a path, or a text to hide is not a text.
    """

    ignores = UNUSED_EVENTS

    def __init__(
        self,
        path: str | os.PathLike[str],
        hide: str | Iterable[str] = (),
        *,
        parent: RunParent | None = None,
    ) -> None:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise TypeError(f"path must be the path of a file, such as 'run.jsonl', not {path!r}.")
        self.path = Path(path)
        self.error: OSError | None = None
        self._parent = parent
        self._hidden = _hidden_texts(hide)
        self._hashes: set[str] = set()
        self._writers: dict[str, RunWriter] = {}  # of the runs that have not ended, by id
        self._failed: dict[str, RunWriter] = {}  # of runs that raised, oldest first
        self._file: FileIO | None = None

    def __call__(self, event: LoopEvent) -> None:
        """Write an event; a run passes all of its events.

        Raises:
            RunFileError: The first event: the file exists and is not a run file. It was not
                changed.
            OSError: The first event: the file cannot be opened.
        """
        writer = self._writers.get(event.run_id) or self._begin(event)
        if writer is None:
            return
        writer.write(event)
        if isinstance(event, LoopEnded):
            del self._writers[event.run_id]
            if event.result is None:
                self._failed[event.run_id] = writer
            if len(self._failed) > _MAX_FAILED:
                del self._failed[next(iter(self._failed))]

    def _begin(self, event: LoopEvent) -> RunWriter | None:
        """The writer of a run that begins, or that a runner continues after a failure."""
        writer = self._failed.pop(event.run_id, None)
        if isinstance(event, RunStarted):
            self.open()
            writer = RunWriter(self._write, self._hashes, self._hidden, self._parent)
        if writer is not None:
            self._writers[event.run_id] = writer
        return writer

    def _write(self, line: bytes) -> None:
        """Append a line. After a failure, nothing more is written."""
        if self.error is not None:
            return
        try:
            written = (self._file or self.open()).write(line)
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

    def open(self) -> FileIO:
        """Open or create the file; the first run does this.

        Raises:
            RunFileError: The file exists and is not a run file. It was not changed.
            OSError: The file cannot be opened.
        """
        if self._file is None:
            if not self.path.parent.is_dir():
                raise FileNotFoundError(
                    f"The run file {str(self.path)!r} cannot be created: its folder "
                    f"{str(self.path.parent)!r} is missing."
                )
            self._file = open_run_file(self.path)
            weakref.finalize(self, self._file.close)
        return self._file

    def __repr__(self) -> str:
        return f"RunFile({str(self.path)!r})"


def _hidden_texts(hide: str | Iterable[str]) -> tuple[str, ...]:
    texts = (hide,) if isinstance(hide, str) else tuple(hide)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"hide contains texts, not {type(text).__name__}.")
        if 0 < len(text) < _SHORTEST:
            raise ValueError(f"A text of fewer than {_SHORTEST} characters cannot be hidden.")
    return tuple(filter(None, texts))
