"""A toy agent over a real folder: it lists, reads, searches, and writes where somebody agrees.

    python examples/folder_agent.py

Key points:
  1. A path that a model wrote is followed to its end, symbolic links included, before anything is
  done with it. 2. Before a file is written somebody is asked. The model reads the reason of a "no",
  and may do better. 3. A refusal is the result of a call, not the end of a run: the model goes on
  from there.

A script plays the model, a rule plays the person. The folder is made for this run, and removed
after it. It prints each call of the model, what the person was asked, and the result.
"""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))  # the packages, before examples of the same name

from stage0_gateway import Gateway, ScriptedModel
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import (
    ApprovalRequest,
    Approve,
    LoopEvent,
    Reject,
    ToolAnswered,
    ToolCalled,
    ToolError,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    Verdict,
    run_tool_loop,
    tool,
)


class Folder:
    """The operations of a model in one folder; its methods become tools."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def tools(self) -> ToolRegistry:
        """One that asks first, three that change nothing."""
        read = tool(effect="read")
        write_file = tool(needs_approval=True)(self.write_file)
        return ToolRegistry(
            read(self.list_files), read(self.read_file), read(self.search), write_file
        )

    def list_files(self, path: str = ".") -> list[str]:
        """Name what is in the folder, or in a folder in it."""
        return sorted(each.name for each in self._inside(path).iterdir())

    def read_file(self, path: str) -> str:
        """Read a text file, the first 20,000 characters of it."""
        if not (place := self._inside(path)).is_file():  # a folder, a pipe, nothing at all
            raise ToolError("not_found", f"{path[:200]!r} is no file.", hint="Try list_files.")
        try:
            with place.open(encoding="utf-8") as file:
                return file.read(20_000)
        except UnicodeDecodeError:
            raise ToolError("execution", f"{path[:200]!r} is no text.") from None

    def search(self, word: str) -> list[str]:
        """Find the lines with a word in all files; the first 100."""
        found: list[str] = []
        for file in sorted(self.root.rglob("*")):
            with suppress(ToolError, OSError):  # folders, pictures, links that lead out
                lines, name = (
                    self.read_file(str(file)).splitlines(),
                    file.relative_to(self.root).as_posix(),
                )
                found += [f"{name}: {line}" for line in lines if word in line]
        return found[:100]

    def write_file(self, path: str, text: str) -> str:
        """Write a text file; what was in it is gone."""
        if (place := self._inside(path)).exists() and not place.is_file():
            raise ToolError("validation", f"{path[:200]!r} is there, and is no file.")
        content = text.encode()  # before the file is opened, which empties it
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        return f"{len(text)} characters written."

    def _inside(self, path: str) -> Path:
        try:
            place = (
                self.root / path
            ).resolve()  # follows every link, also one in the middle of the path
        except (OSError, RuntimeError, ValueError):  # a link to itself, a NUL
            place = self.root.parent
        if not place.is_relative_to(self.root):
            raise ToolError(
                "permission", f"{path[:200]!r} is not in the folder.", hint="Try list_files."
            )
        # A link that somebody makes between this look and the use is not seen, and a hard link
        # looks like any file: let nobody else write here. Where you cannot know that, run the tools
        # in a container.
        return place


def ask(request: ApprovalRequest) -> Verdict:
    """A person who wants the milk to stay on the list; yours would read from the keyboard."""
    if not request.needs_approval:  # every call is asked about, also those that only read
        return Approve()
    verdict = (
        Approve()
        if "milk" in request.arguments["text"]
        else Reject("The milk must stay on the list.")
    )
    print(f"  Somebody is asked: may {request.tool} run? {verdict}")
    return verdict


def show(event: LoopEvent) -> None:
    """Each call, and its result."""
    match event:
        case ToolCalled(call=call):
            print(call.name, call.arguments)
        case ToolAnswered(result=result):
            print(f"  {result.status}:", str(result.output).replace("\n", "\n    "))


REPLIES = [
    '{"tool": "list_files"}',
    '{"tool": "read_file", "arguments": {"path": "../secret.txt"}}',
    '{"tool": "read_file", "arguments": {"path": "home/secret.txt"}}',
    '{"tool": "search", "arguments": {"word": "Ada"}}',
    '{"tool": "write_file", "arguments": {"path": "list.txt", "text": "Tea"}}',
    '{"tool": "write_file", "arguments": {"path": "list.txt", '
    '"text": "Buy milk.\\nBuy tea for Ada.\\n"}}',
    '{"tool": null, "reply": "Tea is on the list now, below the milk."}',
]


async def main(outside: Path) -> None:
    """Make a folder with a way out, and let the model loose in it."""
    root = outside / "folder"
    root.mkdir()
    (outside / "secret.txt").write_text("Ada's password")
    (root / "home").symlink_to(outside)
    (root / "list.txt").write_text("Buy milk.\n")
    (root / "people.txt").write_text("Ada likes tea.\nBob does not.\n")
    # The text of an OSError would name the real place of the folder; its type is enough for a
    # model.
    options = ToolLoopOptions(
        approve=ask, on_event=show, classify=lambda error: type(error).__name__
    )
    async with Gateway("openai:any", transport=ScriptedModel(REPLIES)) as gateway:
        context = ContextEngine()
        deps = ToolLoopDeps(gateway.chat, context, OutputController(), Folder(root).tools())
        result = await run_tool_loop(
            deps, await context.create_session(), "Add what Ada likes.", options
        )
    print(result.reply, "|", result.status)
    print("In the file:", (root / "list.txt").read_text().splitlines())


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        asyncio.run(main(Path(temporary)))
