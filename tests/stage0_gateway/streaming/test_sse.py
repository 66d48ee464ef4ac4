import tracemalloc

from stage0_gateway.streaming.sse import SseReader
from tests.stage0_gateway.replies import events_of, split
from tests.tables import for_each


@for_each(
    "body, expected",
    [
        ("data: a\n\n", ["a"]),
        ("data: a\n\ndata: b\n\n", ["a", "b"]),
        ("data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        ("data: a\r\rdata: b\r\r", ["a", "b"]),
        ("data: a\r\n\ndata: b\n\r\n", ["a", "b"]),
        ("data: a\n\n\n\n\ndata: b\n\n", ["a", "b"]),
        ("data: a\ndata: b\n\n", ["a\nb"]),
        ("data: a\ndata:\ndata: b\n\n", ["a\n\nb"]),
        ("data: a\ndata\ndata: b\n\n", ["a\n\nb"]),
        ("data:a\n\ndata:  a \n\n", ["a", " a "]),
        (": hello\n\ndata: a\n: in between\n\n", ["a"]),
        ("event: x\nid: 1\nretry: 3\ndata: a\n\n", ["a"]),
        ("event: x\n\nid: 1\n\n", []),
        ("database: x\n\nDATA: x\n\n data: x\n\n", []),
        ("\ufeffdata: a\n\n", ["a"]),
        ("\n\ufeffdata: a\n\n", []),
        ("data: a: b\n\n", ["a: b"]),
        ("data: Grüße 你好 🙂\u2028\x85\x0b\n\n", ["Grüße 你好 🙂\u2028\x85\x0b"]),
        ("data: a", ["a"]),
        ("data: a\n", ["a"]),
        ("data: a\r", ["a"]),
        ("data: a\n\nda", ["a"]),
        ("", []),
    ],
)
@for_each("size", [1, 2, 3, 1000])
def test_events_are_parsed_however_the_bytes_are_split(body, expected, size):
    raw = body.encode()
    assert events_of(split(raw, size)) == expected


def test_an_event_is_returned_as_soon_as_it_is_complete():
    reader = SseReader()
    given = [
        reader.feed(chunk)
        for chunk in (b"data: a", b"\n", b"\n", b"data: b\r\n\r", b"\ndata", b": c\n\n")
    ]
    assert given == [[], [], ["a"], ["b"], [], ["c"]]


@for_each(
    "chunk",
    [
        b"data: b\ndata: c\n\n",
        b"data: b\r\n\n",
        b"data: \n\n",
        b"data: b\n\n",
        b"data: b\n\ndata: c\n\n",
    ],
)
@for_each("before", [b"data: a\n\n", b"data: a\n", b"data: a", b"data: a\r", b"data: a\r\n\r"])
def test_a_chunk_of_whole_events_is_parsed_with_the_bytes_before_it(before, chunk):
    together = b"data: x\n\n" + before + chunk
    assert events_of([b"data: x\n\n", before, chunk]) == events_of([together])


def test_a_line_end_that_is_split_is_not_an_empty_line():
    assert events_of([b"data: a\r", b"\ndata: b\r", b"", b"\n\r", b"\n"]) == ["a\nb"]


def test_invalid_utf8_is_replaced_without_affecting_other_bytes():
    chunks = [b"data: \xff\xc3\n\ndata: b\n\n", b"data: \xff\n\n"]
    assert events_of(chunks) == ["��", "b", "�"]


def test_closing_without_an_open_event_returns_nothing():
    reader = SseReader()
    assert (reader.feed(b"data: a\n\n"), reader.close(), reader.close()) == (["a"], [], [])


def test_a_byte_is_added_to_a_long_line_without_copying_the_line():
    """Copying the line for every byte would take quadratic time."""
    reader, memory = SseReader(), []
    reader.feed(b"data: " + b"x" * 1_000_000)
    tracemalloc.start()
    for _ in range(100):
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        reader.feed(b"y")
        memory.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    assert max(memory) < 10_000
    assert reader.feed(b"\n\n") == ["x" * 1_000_000 + "y" * 100]
