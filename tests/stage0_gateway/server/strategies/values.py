"""Strategies for values that all formats have: texts, counts, names, and JSON."""

import json
from dataclasses import replace

from hypothesis import strategies as st

from stage0_gateway.parts import ToolCall

TEXT = st.text(max_size=30)
NOT_EMPTY = st.text(min_size=1, max_size=30)
NOT_BLANK = NOT_EMPTY.filter(str.strip)
URL = NOT_EMPTY.map("https://example.com/{}".format)
DATA = st.binary(max_size=6).map(bytes.hex)
IMAGE_TYPE = st.sampled_from(["image/png", "image/webp"])
COUNT = st.integers(0, 10**6)
NAME = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,10}", fullmatch=True).filter(
    lambda name: name not in ("auto", "none", "required", "any")
)
CHOICE = st.none() | st.sampled_from(["auto", "none", "required"]) | NAME

OBJECT = st.dictionaries(
    NOT_EMPTY, st.integers() | TEXT | st.booleans() | st.lists(TEXT, max_size=2), max_size=3
)
ARGUMENTS = OBJECT.map(lambda given: json.dumps(given, ensure_ascii=False))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def json_of(fields, words):
    """Return a strategy for JSON with field names and words of a format in any place."""
    names = st.sampled_from(fields.split())
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.sampled_from([*words.split(), ""]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5),
        max_leaves=30,
    )


def finish_reason(reason, calls):
    """Return the finish reason of a reply; calls are the reason unless there is another one."""
    return "tool_calls" if calls and reason in ("stop", "unknown") else reason


def as_decoded(item, reason):
    """Return an item as it is decoded: after an early end, an empty object may be a truncated one."""
    is_empty = isinstance(item, ToolCall) and item.arguments == "{}"
    ended_early = reason not in ("stop", "tool_calls", "pause")
    return replace(item, arguments="") if is_empty and ended_early else item
