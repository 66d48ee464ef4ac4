"""A tool that records its calls, a minimal dialect, and a conversation with a scripted model."""

from stage0_gateway import Gateway, ScriptedModel
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import (
    FinalReply,
    RequestParts,
    Tool,
    ToolCalls,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    run_tool_loop,
)


class Native:
    """A minimal dialect of native tool calls, which allows several calls in one reply."""

    def describe(self, registry):
        return ""

    def render(self, transcript, registry, *, last=False):
        return RequestParts(tuple(transcript))

    def read(self, response, registry):
        return ToolCalls(response.message) if response.tool_calls else FinalReply(response.message)


class Recorder:
    """A tool that records the arguments of its calls in `seen`."""

    def __init__(self, name="f", parameters=None, returns="ok", effect="read"):
        self.seen = []
        self.returns = returns
        self.tool = Tool(name, "notes", parameters, self.note, effect=effect)

    async def note(self, arguments):
        self.seen.append(arguments)
        return self.returns


class Conversation:
    """One session with a scripted model: its events, its requests and its history."""

    def __init__(self, replies, tools, chat=None, system_prompt=None, **engine):
        self.model = ScriptedModel(replies)
        self.gateway = Gateway("openai:m", transport=self.model, max_retries=0)
        self.engine = ContextEngine(**engine)
        self.registry = ToolRegistry(*tools)
        self.deps = ToolLoopDeps(
            chat or self.gateway.chat, self.engine, OutputController(), self.registry
        )
        self.events = []
        self._system_prompt = system_prompt
        self._session = None

    async def ask(self, question="Go.", *, resume=False, **options):
        if self._session is None:
            self._session = await self.engine.create_session("s", self._system_prompt)
        given = {"on_event": self.events.append, **options}
        return await run_tool_loop(
            self.deps, "s", question, ToolLoopOptions(**given), resume=resume
        )

    async def history(self):
        return list(await self.engine.history("s"))

    async def problems(self):
        return (await self.engine.history("s")).check_history()

    @property
    def seen(self):
        """Return role and text of the messages of each request."""
        return [
            [(each.role, each.text) for each in request.messages] for request in self.model.requests
        ]
