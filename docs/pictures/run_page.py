"""Write `run-light.png` and `run-dark.png`: the page of a run, as the README shows it.

    .venv/bin/python docs/pictures/run_page.py

The run is scripted: an invalid reply with feedback, then a reply with a repair and three calls at
the same time. The program needs Chromium.
"""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import httpx

from llm_stages import RunFile
from llm_stages.runs.page.html import write_page
from stage0_gateway import ChatResponse, Gateway, Message, Price, PriceTable, ScriptedModel, Usage
from stage3_tools import PromptDialect, ToolLoopDeps, run_tool_loop, tool

QUESTION = "Where is it warmest?"
TEXTS = [
    '{"tools": "get_weather", "arguments": {"city": "Rome"}}',
    """I will look at all three cities.

```json
[{"tool": "get_weather", "arguments": {"city": "Rome"}},
 {"tool": "get_weather", "arguments": {"city": "Oslo"}},
 {"tool": "get_weather", "arguments": {"city": "Cairo",}}]
```""",
    '{"tool": null, "reply": "It is warmest in Cairo: 31 degrees."}',
]
USAGE = [Usage(198, 17), Usage(252, 63), Usage(358, 19)]
SECONDS = {"Rome": 0.5, "Oslo": 0.8, "Cairo": 0.3}
TEMPERATURES = {"Rome": 22, "Oslo": 9, "Cairo": 31}
FROM_THE_SECOND_PART = "<style>#request { display: none }</style></head>"
"""The pictures begin like the page after the key 2."""


class SlowModel(ScriptedModel):
    """A scripted model that waits before each reply."""

    seconds = 0.6

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the next reply."""
        await asyncio.sleep(self.seconds)
        return await super().handle_async_request(request)


async def record(path: Path, pace: float = 1) -> None:
    """Write the run file; all waits are multiplied by `pace`."""

    @tool(effect="read")
    async def get_weather(city: str) -> dict[str, str | int]:
        """Get the weather in a city (invented data)."""
        await asyncio.sleep(pace * SECONDS[city])
        return {"city": city, "temp": TEMPERATURES[city]}

    replies = [
        ChatResponse(Message.assistant(text), usage=usage, model="gpt-5-mini")
        for text, usage in zip(TEXTS, USAGE, strict=True)
    ]
    prices = PriceTable({"gpt-5-mini": Price(0.25, 2.0)})
    model = SlowModel(replies)
    model.seconds *= pace
    async with Gateway(
        "openai:gpt-5-mini", api_key="any", transport=model, prices=prices
    ) as gateway:
        deps = ToolLoopDeps(gateway, tool_registry=[get_weather])
        session = await deps.context_engine.create_session()
        dialect = PromptDialect(multiple=True)
        await run_tool_loop(deps, session, QUESTION, dialect=dialect, trace=RunFile(path))


def take_picture(page: Path, picture: Path) -> None:
    """Write what a browser shows of a page."""
    options = [
        "headless",
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "hide-scrollbars",
        "window-size=1280,900",
        f"user-data-dir={page.parent / 'profile'}",
        f"screenshot={picture}",
    ]
    command = ["chromium", *(f"--{option}" for option in options), page.as_uri() + "#turn-2"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def main() -> int:
    """Record the run, and write both pictures."""
    if shutil.which("chromium") is None:
        print("chromium is not installed.", file=sys.stderr)
        return 1
    with TemporaryDirectory() as folder:
        run_file, page = Path(folder) / "run.jsonl", Path(folder) / "run.html"
        asyncio.run(record(run_file))
        write_page(run_file, page)
        html = page.read_text(encoding="utf-8").replace("</head>", FROM_THE_SECOND_PART, 1)
        for theme in ("light", "dark"):
            themed = html.replace("<html", f'<html data-theme="{theme}"', 1)
            page.write_text(themed, encoding="utf-8")
            take_picture(page, Path(__file__).with_name(f"run-{theme}.png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
