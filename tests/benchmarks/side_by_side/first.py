"""The time from the start of a program to its first answer.

    python first.py DRIVER SERVER

Imports the driver and its dependencies, asks one question that takes one round, and ends. Timed from
outside by `starting.py`.
"""

import asyncio
import os
import sys

import job
from server import ANSWER


async def main(name: str, server: str) -> None:
    """Ask one question."""
    driver = job.driver(name)
    dialect: job.Dialect = "calls" if "calls" in driver.SPEAKS else "messages"
    async with driver.asking(job.Work(server, dialect, 1)) as ask:
        assert ANSWER in await ask()
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
