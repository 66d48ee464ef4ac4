"""This project without the extra `[fast]`: `ask`, which creates gateway, session and tools anew."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from drivers.ours import FOLLOWED, HIDDEN, IMPORT, PACKAGES
from job import KEY, QUESTION, Ask, Work

from stage3_tools import NativeDialect, ask

__all__ = ["FOLLOWED", "HIDDEN", "IMPORT", "OPENS_A_CLIENT", "PACKAGES"]
__all__ += ["SPEAKS", "TITLE", "asking"]

TITLE = "llm-stages, ask"
SPEAKS = ("calls", "decisions")
OPENS_A_CLIENT = True


@asynccontextmanager
async def asking(work: Work) -> AsyncIterator[Ask]:
    """Yield `ask` with a model name, as in the README; the address comes from the environment."""
    os.environ |= {"OPENAI_API_KEY": KEY, "LLM_BASE_URL": work.base}
    dialect = None if work.dialect == "decisions" else NativeDialect()

    async def answer() -> str:
        result = await ask(
            QUESTION,
            tools=work.functions,
            model=f"openai:{work.model}",
            dialect=dialect,
            max_tool_rounds=work.rounds + 1,
        )
        return result.reply or ""

    yield answer
