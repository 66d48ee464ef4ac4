"""What the runs of `long_run.py` do: ten rounds of calls, a model that asks for them, and how to
read the journal.

The model is a function of what it sees: it asks for the next round when all results of the rounds
before are there. So it says the same to whoever goes on with a run. Knows no processes; used by
long_run and test_kill_run.
"""

import json
import re
from itertools import accumulate, pairwise

from stage0_gateway import ChatResponse, Message, ToolCall
from stage1_context import SessionNotFound
from stage1_context.journal import CallFinishedRecord, MessageRecord

SESSION, QUESTION = "s", "Do all of it."

EFFECTS = {
    "look": "read",
    "fetch": "read",  # a plain function, run in a thread
    "list": "read",  # says more than the model is shown
    "miss": "read",  # finds nothing
    "put": "idempotent",
    "send": "write",
    "move": "write",  # exclusive
}
SEVERAL = (
    ("send 1",),
    ("look 2",),
    ("look 3a", "put 3b", "send 3c"),
    ("put 4",),
    ("send 5a", "list 5b", "miss 5c", "put 5d"),
    ("fetch 6",),
    ("list 7a", "send 7b", "send 7c", "look 7d"),
    ("send 8",),
    ("look 9a", "put 9b", "move 9c", "put 9d", "look 9e"),
    ("put 10a", "fetch 10b", "send 10c", "look 10d"),  # ended in whatever order
)
ONE = tuple((calls[-1],) for calls in SEVERAL)
ROUNDS = {"native": SEVERAL, "prompt": ONE}
SLOWEST_FIRST = ("3b 3a 3c", "5a 5b 5c 5d", "7b 7d 7a 7c", "9a 9b", "9d 9e")
"""In which order the calls of a round end: each lasts until the one behind it is written down."""


def id_of(label):
    """How the model names a call, where it may."""
    return f"call-{label}"


def others(dialect):
    """For each call, by its id, the one that has to be written down before it ends."""
    if dialect != "native":
        return {}
    return {
        id_of(slow): id_of(fast) for ends in SLOWEST_FIRST for slow, fast in pairwise(ends.split())
    }


def reply_to(results, rounds):
    """What the model says who sees these results: the next calls, or what it saw."""
    for done, calls in zip(accumulate(map(len, rounds), initial=0), rounds, strict=False):
        if done == len(results):
            return [
                ToolCall(id_of(label), name, json.dumps({"label": label}))
                for name, label in map(str.split, calls)
            ]
    assert len(results) == sum(map(len, rounds)), "the model was asked in the middle of a round"
    return " ".join(map(seen_in, results))


def seen_in(result):
    """What the model notices of a result."""
    if "may have happened" in result:
        return "perhaps"
    found = re.search(r"(\w+) (\w+): (done|not there)", result)
    return found[0] if found else "?"


async def write_as_calls(rounds, messages, **_):
    """A model that writes calls of the provider's own."""
    said = reply_to([each.text for each in messages if each.role == "tool"], rounds)
    if isinstance(said, str):
        return ChatResponse(Message.assistant(said), "stop")
    return ChatResponse(Message.assistant("", said), "tool_calls")


async def write_as_text(rounds, messages, **_):
    """A model that writes one decision at a time."""
    said = reply_to(
        [each.text for each in messages if each.text.startswith("[Tool result for")], rounds
    )
    if isinstance(said, str):
        decision = {"tool": None, "reply": said}
    else:
        decision = {"tool": said[0].name, "arguments": json.loads(said[0].arguments)}
    return ChatResponse(Message.assistant(json.dumps(decision)), "stop")


MODELS = {"native": write_as_calls, "prompt": write_as_text}


# ---- the journal
# -------------------------------------------------------------------------------------------


def call_of(record):
    """The id of the call that a record is about, or None."""
    return (
        record.message.tool_call_id
        if isinstance(record, MessageRecord)
        else getattr(record, "call_id", None)
    )


def is_outcome(record):
    """Whether a record says what came of a call, so that the call need never be run again."""
    return isinstance(record, CallFinishedRecord) or (
        isinstance(record, MessageRecord) and bool(call_of(record))
    )


async def journal_of(store):
    """All records of the session, or None where there is none."""
    try:
        return [record for _, record in await store.read(SESSION)]
    except SessionNotFound:
        return None
