"""Programs that write to a SQLite file, for tests with more than one process.

python writer.py append_forever FILE
"""

import asyncio
import resource
import sys
from itertools import count

from stage0_gateway import Message
from stage1_context import MessageRecord, SqliteStore, StoreFailed


def user_record(text):
    return MessageRecord(Message.user(text))


def write_line(value):
    sys.stdout.write(f"{value}\n")
    sys.stdout.flush()


async def append_forever(store):
    """Append "other" and a number to the session "s" until the process is killed; print each length."""
    for number in count():
        write_line(await store.append("s", user_record("other"), user_record(str(number))))


async def fill_the_disk(store):
    """Append as long as it is possible; print each length, the error and the number of records."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
    await store.create("s")
    try:
        while True:
            write_line(await store.append("s", user_record("one"), user_record("two" * 1000)))
    except StoreFailed as error:
        write_line(error.__cause__.sqlite_errorname)
    write_line(len(await store.read("s")))
    await store.aclose()


async def end_without_closing(store):
    """Create a session, and end without `aclose`."""
    await store.create("s", user_record("one"))


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](SqliteStore(sys.argv[2])))
