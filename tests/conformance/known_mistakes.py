"""The known mistakes: changes of the finished files, each of which is one plausible bug.

A file in `mistakes/` describes one mistake. Its hunks have no line numbers:

    Accepts NaN and Infinity.

    Caught by: O-040
    Seen in: comet-ml/opik#8456 (json.loads accepts them)

    @@
     def strict(text):
    -    return json.loads(text, parse_constant=finite)
    +    return json.loads(text)

The old lines of a hunk begin with " " or "-", and occur exactly once in the finished file. The new
lines begin with " " or "+", and replace them. So a change elsewhere in the finished file does not
affect the mistake.
"""

import contextlib
import difflib
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.conformance.course import FILES
from tests.conformance.starters import FINISHED, ROOT
from tests.conformance.subject import SubjectError

MISTAKES = Path(__file__).parent / "mistakes"

HEAD = re.compile(
    r"(?P<does>.+?)\n\nCaught by: (?P<caught_by>[A-Z]-\d+)\nSeen in: (?P<seen_in>.+)", re.DOTALL
)


class Change(NamedTuple):
    """One change of a text.

    Attributes:
        old: The old lines, or a part of a line.
        new: The text that replaces them.
    """

    old: str
    new: str

    def applied(self, text: str, name: str) -> str:
        """Return the text with this change.

        Args:
            text: The text.
            name: The name of the change for the error.

        Raises:
            SubjectError: The old lines do not occur exactly once in the text.
        """
        number = text.count(self.old)
        if number != 1:
            fix = "Add a line of context" if number else "Copy them again from the finished file"
            raise SubjectError(
                f"{name}: its old lines occur {number} times in the finished file. {fix}, so that"
                f" they occur exactly once:\n{self.old}"
            )
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class KnownMistake:
    """A finished file with one bug, as its changes.

    Attributes:
        stage: The stage of the finished file.
        name: The name of the mistake.
        does: The behavior of a file with this mistake, as a sentence without a subject.
        caught_by: The case that is about this mistake.
        seen_in: Where it was seen.
        changes: The changes of the finished file.
    """

    stage: str
    name: str
    does: str
    caught_by: str
    seen_in: str
    changes: tuple[Change, ...]

    @property
    def text(self) -> str:
        """The finished file with this mistake.

        Raises:
            SubjectError: The finished file has changed at a line of the mistake.
        """
        return self.applied((FINISHED / FILES[self.stage]).read_text(encoding="utf-8"))

    def applied(self, text: str) -> str:
        """Return a text with the changes of this mistake, one after the other.

        Raises:
            SubjectError: The old lines of a change do not occur exactly once in the text.
        """
        for number, change in enumerate(self.changes, 1):
            text = change.applied(text, f"{self.stage}/{self.name}.diff, hunk {number}")
        return text

    @contextlib.contextmanager
    def file(self) -> Iterator[Path]:
        """Write the file, with the name of a learner's file, and remove it afterwards."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"my_{FILES[self.stage]}"
            path.write_text(self.text, encoding="utf-8")
            yield path


def known_mistakes(stage: str) -> list[KnownMistake]:
    """Return the known mistakes of a stage, in the order of their names."""
    return [read_mistake(path) for path in sorted((MISTAKES / stage).glob("*.diff"))]


def find_mistake(stage: str, name: str) -> KnownMistake:
    """Return the known mistake with a name.

    Raises:
        SubjectError: There is no such mistake; the text contains similar names.
    """
    path = MISTAKES / stage / f"{name}.diff"
    if path.is_file():
        return read_mistake(path)
    names = [each.stem for each in path.parent.glob("*.diff")]
    similar = ", ".join(difflib.get_close_matches(name, names))
    folder = path.parent.relative_to(ROOT).as_posix()
    raise SubjectError(
        f"There is no file {name}, and no known mistake of {stage} with this name. "
        + (f"Similar names: {similar}." if similar else f"{folder} contains the known mistakes.")
    )


def read_mistake(path: Path) -> KnownMistake:
    """Read the file of a known mistake.

    Raises:
        SubjectError: The file has another form.
    """
    head, *hunks = re.split(r"^@@\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    name = f"{path.parent.name}/{path.name}"
    found = HEAD.fullmatch(head.strip())
    if found is None or not hunks:
        raise SubjectError(f"{name} needs a sentence, 'Caught by:', 'Seen in:' and a hunk.")
    texts = {field: " ".join(text.split()) for field, text in found.groupdict().items()}
    changes = (read_hunk(hunk, f"{name}, hunk {at}") for at, hunk in enumerate(hunks, 1))
    return KnownMistake(path.parent.name, path.stem, **texts, changes=tuple(changes))


def read_hunk(text: str, name: str) -> Change:
    """Read the lines of one hunk; an empty line is a line of context.

    Raises:
        SubjectError: A line begins with another character, or no line changes.
    """
    lines = [(line[:1] or " ", f"{line[1:]}\n") for line in text.rstrip("\n").split("\n")]
    if wrong := [f"{mark}{line}" for mark, line in lines if mark not in " -+"]:
        raise SubjectError(
            f"{name}: a line needs ' ', '-' or '+' as its first character: {wrong[0]}"
        )
    old, new = ("".join(line for mark, line in lines if mark in kept) for kept in (" -", " +"))
    if old == new:
        raise SubjectError(f"{name} changes nothing.")
    return Change(old, new)
