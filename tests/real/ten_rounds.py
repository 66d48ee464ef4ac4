"""The session of `long_run.py`: ten rounds of calls, a model that requests them, and the journal.

The model is a pure function of its messages: it requests the next round when all results of the
previous rounds are present. So it replies the same in each process that resumes a run. Used by
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
    "list": "read",  # returns more text than the model gets
    "miss": "read",  # fails with not_found
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
    ("put 10a", "fetch 10b", "send 10c", "look 10d"),  # ends in any order
)
ONE = tuple((calls[-1],) for calls in SEVERAL)
ROUNDS = {"native": SEVERAL, "prompt": ONE}
SLOWEST_FIRST = ("3b 3a 3c", "5a 5b 5c 5d", "7b 7d 7a 7c", "9a 9b", "9d 9e")
"""The order in which the calls of a round end: each waits until the following one is stored."""


def id_of(label):
    """Return the id of a call, if the model can set it."""
    return f"call-{label}"


def awaited_calls(dialect):
    """Return, for each call id, the id of the call that must be stored before it ends."""
    if dialect != "native":
        return {}
    return {
        id_of(slow): id_of(fast) for ends in SLOWEST_FIRST for slow, fast in pairwise(ends.split())
    }


def reply_to(results, rounds):
    """Return the next calls of the model, or its final text."""
    for done, calls in zip(accumulate(map(len, rounds), initial=0), rounds, strict=False):
        if done == len(results):
            return [
                ToolCall(id_of(label), name, json.dumps({"label": label}))
                for name, label in map(str.split, calls)
            ]
    assert len(results) == sum(map(len, rounds)), "the model was asked in the middle of a round"
    return " ".join(map(seen_in, results))


def seen_in(result):
    """Return the part of a result that the model repeats."""
    if "may have happened" in result:
        return "uncertain"
    found = re.search(r"(\w+) (\w+): (done|not there)", result)
    return found[0] if found else "?"


async def write_as_calls(rounds, messages, **_):
    """A model that writes native calls."""
    reply = reply_to([each.text for each in messages if each.role == "tool"], rounds)
    if isinstance(reply, str):
        return ChatResponse(Message.assistant(reply), "stop")
    return ChatResponse(Message.assistant("", reply), "tool_calls")


async def write_as_text(rounds, messages, **_):
    """A model that writes one decision at a time."""
    reply = reply_to(
        [each.text for each in messages if each.text.startswith("[Tool result for")], rounds
    )
    if isinstance(reply, str):
        decision = {"tool": None, "reply": reply}
    else:
        decision = {"tool": reply[0].name, "arguments": json.loads(reply[0].arguments)}
    return ChatResponse(Message.assistant(json.dumps(decision)), "stop")


MODELS = {"native": write_as_calls, "prompt": write_as_text}


# ---- the journal


def call_of(record):
    """Return the id of the call that a record belongs to, or None."""
    return (
        record.message.tool_call_id
        if isinstance(record, MessageRecord)
        else getattr(record, "call_id", None)
    )


def is_outcome(record):
    """Return whether a record has the outcome of a call, which is then not run again."""
    return isinstance(record, CallFinishedRecord) or (
        isinstance(record, MessageRecord) and bool(call_of(record))
    )


async def journal_of(store):
    """Return all records of the session, or None without a session."""
    try:
        return [record for _, record in await store.read(SESSION)]
    except SessionNotFound:
        return None
