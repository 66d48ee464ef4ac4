"""`RunFileError`: a file is not a run file, or a line of it was damaged or changed.

Raised by `opening` and `reader`.
"""

from pathlib import Path


class RunFileError(ValueError):
    """A file is not a run file, or a line of it was damaged or changed.

    Attributes:
        line: The number of the line, starting at 1; None if the error concerns the whole file.
    """

    def __init__(self, path: Path, problem: str, line: int | None = None) -> None:
        super().__init__(
            f"{path}: {problem}" if line is None else f"{path}, line {line}: {problem}"
        )
        self.line = line
