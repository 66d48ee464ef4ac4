"""The operations of stage 1, with the package `stage1_context`.

`window` does what the loop of stage 3 does: it pins the newest question. `history` stores a session
in a SQLite file. A file of JSON lines stands for what earlier processes did: a complete line is a
record, and an incomplete last line is a transaction that a crash interrupted.
"""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from stage0_gateway import ChatResponse, Message, Usage
from stage1_context import (
    ApproximateCounter,
    ContextEngine,
    KeepSystemAndRecent,
    MessageHistory,
    MessageRecord,
    SessionConflict,
    SqliteStore,
    StoreFailed,
    Transcript,
    WindowTooSmall,
    message_tokens,
    record_to_json,
)
from stage3_tools.dialects.escaping import feedback_message
from tests.conformance.surroundings import Failure

SESSION = "conversation"
COUNTER = ApproximateCounter()


# ---- messages and counts


def from_openai(messages: Sequence[Any]) -> list[Message]:
    """Messages in OpenAI's format as values of stage 0."""
    return [Message.from_dict(message) for message in messages]


def to_openai(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages in OpenAI's format."""
    return [openai_message(message) for message in messages]


def openai_message(message: Message) -> dict[str, Any]:
    """A message in OpenAI's format."""
    plain = message.to_dict()
    if message.tool_calls:
        plain["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    return plain


def messages(parts: Sequence[Sequence[str]]) -> Any:
    create = {
        "system": Message.system,
        "user": Message.user,
        "feedback": feedback_message,
        "tool_result": lambda call_id, text: Message.tool(text, call_id),
    }
    return to_openai([create[role](*texts) for role, *texts in parts])


def count(message: Any) -> int:
    return message_tokens(COUNTER, Message.from_dict(message))


# ---- windows


def newest_question(messages: Sequence[Message]) -> Message | None:
    """The newest message that a user wrote."""
    questions = [each for each in messages if each.role == "user" and each.name != "feedback"]
    return questions[-1] if questions else None


async def window(
    messages: Any,
    max_tokens: int | None = None,
    spare: int | None = None,
    max_messages: int | None = None,
    reserve_tokens: int = 0,
    extra_text: str = "",
    pinned: Any = None,
    summary: str = "",
    summarized: int = 0,
    reported_tokens: int | None = None,
) -> Any:
    conversation = from_openai(messages)
    if spare is not None:
        max_tokens = spare + sum(message_tokens(COUNTER, each) for each in conversation)
    limit = KeepSystemAndRecent(max_tokens, max_messages)
    transcript = Transcript.of(conversation, limit, COUNTER)
    if summary:
        await transcript.set_summary(summary, until=summarized)
    pin = Message.from_dict(pinned) if pinned else newest_question(conversation)

    async def request() -> list[Message]:
        return await transcript.for_request(
            reserve_tokens=reserve_tokens, extra_text=extra_text, pinned=pin
        )

    try:
        selected = await request()
        if reported_tokens is not None:
            transcript.report_usage(Usage(input_tokens=reported_tokens))
            selected = await request()
    except WindowTooSmall as error:
        raise Failure("too_small", str(error)) from error
    return to_openai(selected)


async def compact(messages: Any, max_tokens: int, ask: Any) -> Any:
    async def chat(messages: Sequence[Message]) -> ChatResponse:
        reply = await ask(to_openai(messages))
        message = Message.from_dict(reply["message"])
        return ChatResponse(message, finish_reason=reply["finish_reason"])

    async with ContextEngine(
        window=KeepSystemAndRecent(max_tokens), token_counter=COUNTER
    ) as engine:
        session = await engine.create_session()
        await engine.add_messages(session, *messages)
        await engine.compact(session, chat, threshold=0.5)
        return {
            "value": to_openai(await engine.messages_for_request(session)),
            "history": to_openai((await engine.history(session)).messages),
        }


# ---- pairing


async def repair(messages: Any) -> Any:
    transcript = Transcript.of(from_openai(messages))
    await transcript.repair_history()
    return to_openai((await transcript.history()).messages)


def check(messages: Any) -> Any:
    return MessageHistory(from_openai(messages)).check_history()


async def open_calls(messages: Any) -> Any:
    found = await Transcript.of(from_openai(messages)).open_calls()
    return [call.id for call in found.calls] if found else []


# ---- stored conversations


async def history(path: str | None = None, add: Any = ()) -> Any:
    database = await database_of(path)
    engine, loaded = await opened(database)
    await engine.add_messages(SESSION, *add)
    messages = (await engine.history(SESSION)).messages
    outcome = {"loaded": to_openai(loaded), "messages": to_openai(messages)}
    if path is not None:
        again, loaded_again = await opened(database)
        outcome["loaded_again"] = to_openai(loaded_again)
        await again.aclose()
    await engine.aclose()
    return outcome


async def writers(path: str, add: Any) -> Any:
    """Two open conversations in one file add messages by turns."""
    database = await database_of(path)
    engines = [(await opened(database))[0] for _ in range(2)]
    for number, message in enumerate(add):
        await engines[number % 2].add_messages(SESSION, message)
    again, loaded = await opened(database)
    for engine in (*engines, again):
        await engine.aclose()
    return {"loaded_again": to_openai(loaded)}


async def conflict(path: str, first: Any, second: Any) -> Any:
    """Two writers continue the same messages with a reply each."""
    database = await database_of(path)
    engines = [(await opened(database))[0] for _ in range(2)]
    outcome: dict[str, Any] = {}
    since = (await engines[0].transcript(SESSION).info()).records
    try:
        for engine, reply in zip(engines, (first, second), strict=True):
            message = Message.from_dict(reply)
            await engine.transcript(SESSION).append(message, since=since)
    except SessionConflict as error:
        outcome["error"] = {"kind": "conflict", "message": str(error)}
    again, loaded = await opened(database)
    for engine in (*engines, again):
        await engine.aclose()
    return {**outcome, "loaded_again": to_openai(loaded)}


async def opened(database: str) -> tuple[ContextEngine, Sequence[Message]]:
    """Open a session, and repair it as a program does at its start."""
    engine = ContextEngine(store=SqliteStore(database))
    try:
        await engine.create_session(SESSION, exist_ok=True)
        await engine.repair_history(SESSION)
        return engine, (await engine.history(SESSION)).messages
    except StoreFailed as error:
        await engine.aclose()
        raise Failure("damaged", str(error)) from error


async def database_of(path: str | None) -> str:
    """Return the database that stands for a file: with the messages in its lines."""
    if path is None:
        return ":memory:"
    database = f"{path}.db"
    if stored := lines_of(Path(path)):
        async with ContextEngine(store=SqliteStore(database)) as engine:
            await engine.create_session(SESSION)
        *lines, last = stored
        write_records(database, [line.decode() for line in lines if line.strip()], last)
    return database


def lines_of(path: Path) -> list[bytes]:
    """Return the lines of a file; the last one is incomplete. Empty without a file."""
    return path.read_bytes().split(b"\n") if path.exists() else []


def write_records(database: str, lines: Sequence[str], interrupted: bytes) -> None:
    """Write records as earlier processes did; the last one ended within its transaction."""
    insert = "INSERT INTO record SELECT key, ?, 'message', ? FROM session"
    with closing(sqlite3.connect(database)) as connection:
        for position, line in enumerate(lines):
            connection.execute(insert, (position, record_of(line)))
        connection.commit()
        connection.execute(insert, (len(lines), interrupted))


def record_of(line: str) -> str:
    """Return the record of a stored message; a damaged line is a damaged record."""
    try:
        return record_to_json(MessageRecord(Message.from_dict(json.loads(line))))
    except ValueError:
        return line


OPERATIONS = {
    "messages": messages,
    "count": count,
    "window": window,
    "compact": compact,
    "repair": repair,
    "check": check,
    "open_calls": open_calls,
    "history": history,
    "writers": writers,
    "conflict": conflict,
}
