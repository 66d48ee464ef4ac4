"""Server-sent events: bytes in any pieces become the data of one event after another.

Pure, and knows no wire format. Reads what the standard says (CR, LF and CRLF, comments, several
data lines, a byte order mark) in time linear in the bytes, however they are cut. Event names, ids
and retry times are passed over: no format needs them, because the data say themselves what they
are. Used by `incoming.py`.
"""

_MARK = b"\xef\xbb\xbf"


class SseReader:
    """Takes chunks of bytes and gives the data of the events that are complete by then."""

    def __init__(self) -> None:
        self._line: list[bytes] = []  # pieces of an unfinished line
        self._data: list[bytes] = []  # data lines of an unfinished event
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> list[str]:
        """The data of each event that this chunk completes."""
        if self._after_cr and chunk.startswith(b"\n"):  # the second half of a CRLF
            chunk = chunk[1:]
            self._after_cr = False
        if not chunk:
            return []
        self._after_cr = chunk.endswith(b"\r")
        if b"\n" not in chunk and b"\r" not in chunk:
            self._line.append(chunk)
            return []
        if self._line:
            chunk = b"".join((*self._line, chunk))
        lines = chunk.splitlines()
        self._line = [] if chunk.endswith((b"\n", b"\r")) else [lines.pop()]
        return self._events(lines)

    @property
    def inside_a_line(self) -> bool:
        """Whether the last line has no line break yet."""
        return bool(self._line)

    def close(self) -> list[str]:
        """The data of a last event that the server did not end with an empty line."""
        return self.feed(b"\n\n") + self.feed(b"\n\n")

    def _events(self, lines: list[bytes]) -> list[str]:
        if self._first:
            self._first = False
            lines[0] = lines[0].removeprefix(_MARK)
        events, data = [], self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line and data:
                text = data[0] if len(data) == 1 else b"\n".join(data)
                events.append(text.decode(errors="replace"))
                data.clear()
            elif line == b"data":  # a field without a colon is an empty one
                data.append(b"")
        return events
