"""Decode server-sent events: chunks of bytes become the data of events.

The decoder follows the standard: CR, LF and CRLF, comments, several data lines, a byte order mark.
It takes time linear in the number of bytes, however they are split. Event names, ids and retry
times are ignored, because every format repeats its event names inside the data. This module knows
no wire format. `http/streaming_response.py` uses it.
"""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SseReader:
    """Reads chunks of bytes and returns the data of complete events."""

    def __init__(self) -> None:
        self._line: list[bytes] = []  # pieces of an incomplete line
        self._data: list[bytes] = []  # data lines of an incomplete event
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> list[str]:
        """Return the data of each event that this chunk completes."""
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
        """Return the data of a last event without an empty line at its end."""
        return self.feed(b"\n\n") + self.feed(b"\n\n")

    def _events(self, lines: list[bytes]) -> list[str]:
        if self._first:
            self._first = False
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
        events, data = [], self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line and data:
                text = data[0] if len(data) == 1 else b"\n".join(data)
                events.append(text.decode(errors="replace"))
                data.clear()
            elif line == b"data":  # a field without a colon is empty
                data.append(b"")
        return events
