"""Run an agent over a real folder, with approval before a file is written.

    .venv/bin/python examples/folder_agent.py

Key points:
  1. Each path is resolved first, symbolic links included. A path outside the folder is refused.
  2. A write needs approval (human in the loop). The model reads the reason of a rejection.
  3. A refusal is the result of a call. It does not end the run, so the model can correct itself.

A scripted model writes the calls, and a rule replaces the person. The folder is temporary. The
output shows each call of the model, each approval request, and each result.
"""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))  # import the packages of this checkout

from stage0_gateway import Gateway, ScriptedModel
from stage3_tools import (
    ApprovalRequest,
    Approve,
    LoopEvent,
    Reject,
    ToolAnswered,
    ToolCalled,
    ToolError,
    ToolLoopDeps,
    ToolRegistry,
    Verdict,
    run_tool_loop,
    tool,
)


class Folder:
    """The operations on one folder; the public methods become tools."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def tools(self) -> ToolRegistry:
        """Three tools that read, and one that writes after approval."""
        read = tool(effect="read")
        write_file = tool(effect="write", needs_approval=True)(self.write_file)
        return ToolRegistry(
            read(self.list_files), read(self.read_file), read(self.search), write_file
        )

    def list_files(self, path: str = ".") -> list[str]:
        """List the files in the folder, or in a subfolder."""
        return sorted(each.name for each in self._inside(path).iterdir())

    def read_file(self, path: str) -> str:
        """Read the first 20,000 characters of a text file."""
        place = self._inside(path)
        if not place.is_file():  # a folder, a pipe, or a missing file
            raise ToolError("not_found", f"{path[:200]!r} is no file.", hint="Try list_files.")
        try:
            with place.open(encoding="utf-8") as file:
                return file.read(20_000)
        except UnicodeDecodeError:
            raise ToolError("execution", f"{path[:200]!r} is no text.") from None

    def search(self, word: str) -> list[str]:
        """Find the first 100 lines that contain a word, in all files."""
        found: list[str] = []
        for file in sorted(self.root.rglob("*")):
            with suppress(ToolError, OSError):  # folders, images, links to the outside
                lines = self.read_file(str(file)).splitlines()
                name = file.relative_to(self.root).as_posix()
                found += [f"{name}: {line}" for line in lines if word in line]
        return found[:100]

    def write_file(self, path: str, text: str) -> str:
        """Write a text file and replace its content."""
        place = self._inside(path)
        if place.exists() and not place.is_file():
            raise ToolError("validation", f"{path[:200]!r} is there, and is no file.")
        content = text.encode()  # an encoding error must not leave an empty file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        return f"{len(text)} characters written."

    def _inside(self, path: str) -> Path:
        """Resolve a path, and refuse one outside the folder."""
        try:
            place = (self.root / path).resolve()  # follows every link in the path
        except (OSError, RuntimeError, ValueError):  # a link to itself, a NUL character
            place = self.root.parent
        if not place.is_relative_to(self.root):
            raise ToolError(
                "permission", f"{path[:200]!r} is not in the folder.", hint="Try list_files."
            )
        # Not detected: hard links, and links that are created between this check and the use. No
        # other process may write to this folder. Run the tools in a container if you cannot be
        # sure.
        return place


def ask(request: ApprovalRequest) -> Verdict:
    """Approve a list that contains milk; a real approver asks a person."""
    verdict: Verdict = Approve()
    if "milk" not in request.arguments["text"]:
        verdict = Reject("The milk must stay on the list.")
    print(f"  Approval request: may {request.tool} run? {verdict}")
    return verdict


def show(event: LoopEvent) -> None:
    """Print each call and its result."""
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
    """Create a folder with a link to the outside, and run the agent in it."""
    root = outside / "folder"
    root.mkdir()
    (outside / "secret.txt").write_text("Ada's password")
    (root / "home").symlink_to(outside)
    (root / "list.txt").write_text("Buy milk.\n")
    (root / "people.txt").write_text("Ada likes tea.\nBob does not.\n")

    def describe(error: BaseException) -> str:
        """Return the type only: the text of an OSError contains the real path of the folder."""
        return type(error).__name__

    async with Gateway("openai:any", transport=ScriptedModel(REPLIES)) as gateway:
        deps = ToolLoopDeps(gateway, tool_registry=Folder(root).tools())
        session = await deps.context_engine.create_session()
        question = "Add what Ada likes."
        result = await run_tool_loop(
            deps, session, question, approve=ask, on_event=show, classify=describe
        )
    print(result.reply, "|", result.status)
    print("In the file:", (root / "list.txt").read_text().splitlines())


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        asyncio.run(main(Path(temporary)))
