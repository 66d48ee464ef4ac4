"""`llm-stages chat`: a conversation in the terminal, stored in SQLite.

Commands: /tools lists the tools, /undo removes the last question and everything after it, /new
starts another conversation, /quit ends. Ctrl-C stops a reply; at the prompt it ends the chat.
"""

import argparse
import asyncio
import contextlib
import os
from pathlib import Path

from llm_stages.cli.ask import loop_options
from llm_stages.cli.live import LiveOutput, open_gateway
from llm_stages.cli.terminal import Terminal
from llm_stages.cli.tool_file import load_tools
from stage0_gateway import (
    GatewayError,
    Message,
)
from stage1_context import (
    ContextEngine,
    ContextError,
    MessageHistory,
    SqliteStore,
)
from stage3_tools import (
    ToolLoopDeps,
    ToolRegistry,
    last_question,
    run_tool_loop,
)

HELP = "/tools  /undo  /new  /quit"


def sessions_file() -> Path:
    """Return the file of the stored conversations; LLM_STAGES_SESSIONS selects another one."""
    path = os.environ.get("LLM_STAGES_SESSIONS")
    return Path(path) if path else Path.home() / ".llm-stages" / "sessions.db"


def open_engine() -> ContextEngine:
    """Return an engine with the stored conversations."""
    path = sessions_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return ContextEngine(store=SqliteStore(path))


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Talk until the user ends the chat; return 0."""
    tools = load_tools(options.tools)
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  (arrow keys and history at the prompt)
    with asyncio.Runner() as runner:
        chat = Chat(tools, options, terminal)
        runner.run(chat.start())
        try:
            while _turn(chat, runner, terminal):
                pass
        finally:
            runner.run(chat.close())
    return 0


def _turn(chat: "Chat", runner: asyncio.Runner, terminal: Terminal) -> bool:
    """Read a line and answer it; return False to end the chat."""
    try:
        line = input("\n> ").strip()
    except (EOFError, KeyboardInterrupt):
        terminal.text()
        return False
    if line == "/quit":
        return False
    try:
        runner.run(chat.answer(line))
    except KeyboardInterrupt:
        terminal.note("Stopped.")
    except (GatewayError, ContextError) as error:
        terminal.error(str(error))
    return True


class Chat:
    """A conversation: the gateway, the engine and the session.

    Args:
        tools: The tools.
        options: The options of the command.
        terminal: Where it prints.
    """

    def __init__(
        self, tools: ToolRegistry, options: argparse.Namespace, terminal: Terminal
    ) -> None:
        self._tools = tools
        self._options = options
        self._terminal = terminal
        self._live = LiveOutput(terminal)
        self._loop_options = loop_options(options, terminal, self._live)
        self._engine = open_engine()
        self._gateway = open_gateway(options.model, terminal)
        self._session = ""

    async def start(self) -> None:
        """Continue the last session, or create one."""
        sessions = await self._engine.sessions() if self._options.continue_last else []
        if sessions:
            self._session = sessions[0].id
            count = len(await self._engine.history(self._session))
            self._terminal.note(f"Session {self._session} continues ({count} messages).")
        else:
            self._session = await self._engine.create_session()
        self._terminal.note(f"{len(self._tools)} tools. Commands: {HELP}")

    async def close(self) -> None:
        """Close the connections and the file."""
        await self._gateway.aclose()
        await self._engine.aclose()

    async def answer(self, line: str) -> None:
        """Carry out a command, or answer a question."""
        commands = {"/tools": self._list_tools, "/undo": self._undo, "/new": self._new}
        if not line:
            return
        if line in commands:
            await commands[line]()
        elif line.startswith("/"):
            self._terminal.error(f"Unknown command {line}. The commands are {HELP}.")
        else:
            await self._ask(line)

    async def _ask(self, question: str) -> None:
        live = self._live
        live.shown = ""  # of an interrupted reply
        deps = ToolLoopDeps(self._gateway, self._engine, tool_registry=self._tools, stream=True)
        result = await run_tool_loop(
            deps, self._session, question, on_event=live.on_event, **self._loop_options
        )
        if result.reply is not None:
            live.finish(result.reply)
        else:
            self._terminal.error(f"{result.status}: {result.status_reason or 'no reply'}")

    async def _list_tools(self) -> None:
        rows = [(each.name, each.effect, each.description) for each in self._tools]
        self._terminal.table(("tool", "effect", "description"), rows)

    async def _undo(self) -> None:
        """Continue in a new session without the last exchange; a journal only grows."""
        history = await self._engine.history(self._session)
        question = last_question(history)
        if question is None:
            self._terminal.error("There is nothing to undo.")
            return
        kept = [*history][: _last_index(history, question)]
        self._session = await self._engine.create_session()
        if kept:
            await self._engine.add_messages(self._session, *kept)
        self._terminal.note(f"Removed: {question.text[:80]}")

    async def _new(self) -> None:
        self._session = await self._engine.create_session()
        self._terminal.note("A new conversation.")


def _last_index(history: MessageHistory, message: Message) -> int:
    """The index of the newest message that is this one."""
    messages = [*history]
    return max(index for index, each in enumerate(messages) if each is message)
