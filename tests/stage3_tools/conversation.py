"""Replies of a model, tools and dialects for the tests of this stage, and a scripted conversation.

The prompt dialect writes a decision as text: `call("f", x=1)`, `answer("done")`. Native calls are
parts of a message: `calls("f", "g")`, `native_calls(("f", {"x": 1}), ("g", {}))`.
"""

import asyncio
import json
from string import ascii_lowercase

from stage0_gateway import ChatResponse, Gateway, Message, ScriptedModel, ToolCall
from stage1_context import ContextEngine, MemoryStore
from stage2_output import OutputController
from stage3_tools import (
    FinalReply,
    NativeDialect,
    PromptDialect,
    RequestParts,
    Tool,
    ToolCalls,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    run_tool_loop,
)

# ---- replies of a model


def call(name="f", **arguments):
    """Return the tool call of a reply in the prompt dialect."""
    return json.dumps({"tool": name, "arguments": arguments})


def answer(reply="done"):
    """Return a final reply in the prompt dialect."""
    return json.dumps({"tool": None, "reply": reply})


def calls(*names, **arguments):
    """Return a message with native tool calls, which all have the same arguments."""
    text = json.dumps(arguments)
    each = [ToolCall(f"call_{number}", name, text) for number, name in enumerate(names, 1)]
    return Message.assistant("", each)


def native_calls(*pairs, text=""):
    """Return a message with a native call for each name with arguments; their ids are a, b, c …"""
    each = [
        ToolCall(ascii_lowercase[place], name, json.dumps(arguments))
        for place, (name, arguments) in enumerate(pairs)
    ]
    return Message.assistant(text, each)


def native_response(*calls, text=""):
    """Return a response with these calls, or with a final reply."""
    if calls:
        return ChatResponse(Message.assistant(text, calls), "tool_calls")
    return ChatResponse(Message.assistant(text or "done"), "stop")


def call_in(dialect, name="f", **arguments):
    """Return a reply with one call in the dialect "native" or "prompt"."""
    if dialect == "native":
        return Message.assistant("", [ToolCall("call", name, json.dumps(arguments))])
    return Message.assistant(call(name, **arguments))


def answer_in(dialect, text="done"):
    """Return a final reply in the dialect "native" or "prompt"."""
    return text if dialect == "native" else answer(text)


DIALECTS = {"native": NativeDialect, "prompt": PromptDialect}
DONE = answer()


# ---- chat functions


def chat_of(*responses):
    """Return a `chat` function that returns these responses in order."""
    left = iter(responses)

    async def chat(messages, **settings):
        chat.requests.append([(each.role, each.text) for each in messages])
        return next(left)

    chat.requests = []
    return chat


async def unused_chat(messages, **settings):
    """Fail, because the run makes no request."""
    raise AssertionError("a request was made")


# ---- tools and dialects


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


class Unprintable(Exception):
    """An exception whose text cannot be read."""

    def __str__(self):
        raise RuntimeError("no text")


# ---- runs and conversations


def deps_of(tools, *responses, store=None):
    """Return the parts of a run in session "s", whose model ends with the final reply "done"."""
    left = [*responses]

    async def chat(messages, **settings):
        await asyncio.sleep(0)
        return left.pop(0) if left else native_response()

    engine = ContextEngine(store=store or MemoryStore({"s": ()}))
    return ToolLoopDeps(chat, engine, OutputController(), ToolRegistry(*tools))


class Conversation:
    """One session with a scripted model: its events, its requests and its history."""

    def __init__(self, replies, tools, chat=None, system_prompt=None, **engine):
        self.model = ScriptedModel(replies)
        self.gateway = Gateway("openai:m", transport=self.model, max_retries=0)
        self.engine = ContextEngine(**engine)
        self.registry = ToolRegistry(*tools)
        self.deps = ToolLoopDeps(
            chat or self.gateway, self.engine, OutputController(), self.registry
        )
        self.events = []
        self._system_prompt = system_prompt
        self._session = None

    async def begin(self):
        """Create the session, or continue it. The first question does that, too."""
        self._session = await self.engine.create_session("s", self._system_prompt, exist_ok=True)

    async def ask(self, question="Go.", *, resume=False, **options):
        if self._session is None:
            await self.begin()
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
