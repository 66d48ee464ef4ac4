"""`TurnStepper`: a run that pauses when the model has replied, before any tool runs.

A step takes the same three verbs as the loop (`turn.py`), from one reply to the next. Between two
steps the session is not locked, so other runs may use it. A step that failed can be repeated: it
continues behind everything that was done. Used by `runner.py`.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Literal

from stage0_gateway import ChatResponse, Message, ToolCall
from stage1_context import MemoryStore
from stage3_tools.abort import Stop
from stage3_tools.dialects.protocol import ToolCalls
from stage3_tools.execution.results import STOPPED
from stage3_tools.loop import reports_failure, result_of, session_lock, stoppable
from stage3_tools.options import Listener, ToolLoopDeps
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolLoopResult
from stage3_tools.resume.open_calls import last_question, run_open_calls
from stage3_tools.run.emitter import call_back
from stage3_tools.run.state import RunState, Turn
from stage3_tools.run.stop_policy import Ending, StopPolicy, stopped
from stage3_tools.runner.params import Edits, RunnerParams
from stage3_tools.turn import act, read, request

Phase = Literal["new", "request", "reply", "reported", "returned", "over"]
"""What the next step does first:

    new       run the calls at the end of the messages, then make the first request
    request   make a request; the last one failed, or its turn is complete
    reply     report the reply of the turn
    reported  append the reply if it has no calls, and return it
    returned  run the calls of the reply that a step has returned
    over      nothing
"""


class TurnStepper:
    """A run that is continued step by step.

    Args:
        deps: The parts of the other stages.
        params: The parameters of the run.
        max_iterations: The maximum number of requests; None is no limit.
        listeners: The runner's own listeners.
        on_reply: Called with each complete reply.

    Attributes:
        edits: Changes that take effect when the current turn is over.
        count: The number of replies so far.
        newest_reply: The newest complete reply.
    """

    def __init__(
        self,
        deps: ToolLoopDeps,
        params: RunnerParams,
        max_iterations: int | None,
        listeners: tuple[Listener, ...],
        on_reply: Callable[[ChatResponse], object],
    ) -> None:
        self._deps, self._on_reply = deps, on_reply
        engine, session_id = deps.context_engine, params.session_id
        if session_id is not None:
            transcript = engine.transcript(session_id)
        else:
            transcript = engine.transcript_of(params.conversation)
        self.edits = Edits(params, self._stored_messages if session_id is None else None)
        self.count = 0
        self.newest_reply: ChatResponse | None = None
        self._run = RunState(
            self._deps_with(params),
            transcript,
            params,
            entry="runner",
            max_requests=max_iterations,
            listeners=listeners,
        )
        self._name = session_id or "The conversation of this runner"
        self._phase: Phase = "new"
        self._turn: Turn | None = None  # in the phases "reply", "reported" and "returned"
        self._policy = StopPolicy(self._run)
        self._ending: Ending | None = None
        self._has_started = False

    async def next(self) -> ChatResponse | Ending:
        """Continue up to the next reply, or to the end of the run.

        Raises:
            GatewayError: The model could not be reached. The next step sends the request again.
            Exception: A listener or an approver raised. The next step continues behind it.
        """
        params, run = self.edits.params, self._run
        if self._phase == "new" and params.session_id is None and not params.messages:
            raise ValueError(
                'The runner has nothing to send. Write RunnerParams(messages="…") for a new '
                "conversation, or RunnerParams(session_id=…) for a session of the engine."
            )
        if run.max_requests == 0:
            return Ending("limit", None, "No request was made, because max_iterations is 0.")
        if self._ending is None:
            async with self._continued():
                self._begin()
                reason = run.counts.stop_reason()
                step = await (self._stop(reason) if reason else stoppable(run, self._step))
            if not isinstance(step, Ending):
                self._phase = "returned"
                return step
            self._ending, self._phase = step, "over"
        return self._ending

    def _begin(self) -> None:
        """Count the seconds of the run from its first step, and use the newest parameters there."""
        if not self._has_started:
            self._has_started, self._run.counts.started = True, time.perf_counter()
        if self._phase == "new":
            self._apply_params()

    @asynccontextmanager
    async def _continued(self) -> AsyncIterator[None]:
        """Continue a run that may have failed; report it if it fails again."""
        self._run.reopen()
        async with reports_failure(self._run):
            yield

    @asynccontextmanager
    async def _lock(self) -> AsyncIterator[None]:
        """Lock the session; the reply of the current turn follows what others added meanwhile."""
        transcript = self._run.transcript
        async with session_lock(transcript, self._name):
            if self._run.sent_at is not None and await transcript.open_calls() is None:
                self._run.sent_at = transcript.length
            yield

    async def _step(self) -> ChatResponse | Ending:
        async with self._lock():
            ending = None
            if self._phase == "new":
                ending = await self._prepare()
            elif self._phase == "request":
                await self._apply_edits()
            elif self._phase == "returned":
                ending = await self._complete_turn()
            if ending is not None:
                return ending
            if self._turn is None:
                await self._request()
            return await self._report()

    async def _request(self) -> None:
        """Request and read a reply; it is kept also if a listener raises."""
        turn = await request(self._run, last=self._policy.last)
        try:
            await read(self._run, turn)
        finally:
            if turn.response is not None:
                self._turn, self._phase = turn, "reply"

    async def _prepare(self) -> Ending | None:
        """Run the calls at the end of the messages, and apply edits from before the first step."""
        if ending := await self._run_open_calls():
            return ending
        transcript = self._run.transcript
        if not transcript.session_id and isinstance(transcript.store, MemoryStore):
            await transcript.repair_history()  # the caller's messages may be unpaired
        await self._apply_edits()
        self._phase, self._policy = "request", StopPolicy(self._run)
        return None

    async def _run_open_calls(self) -> Ending | None:
        self._replace_messages()
        self._run.question = self.edits.question
        return await run_open_calls(self._run)

    async def _complete_turn(self) -> Ending | None:
        """Act on the reply, apply the edits, and return the ending if the run is over."""
        assert self._turn is not None
        await act(self._run, self._turn, self._policy.skip_reason)
        has_news = await self._apply_edits()  # if this fails, the next step repeats it
        ending = self._policy.after(self._turn)
        self._turn, self._phase = None, "request"
        if ending is not None and has_news and not self._policy.requests_used_up:
            ending, self._policy = None, StopPolicy(self._run)
        return ending

    async def _report(self) -> ChatResponse:
        """Report a reply once; append it at once if it has no calls."""
        turn = self._turn
        assert turn is not None
        await read(self._run, turn)  # if a listener has raised before
        response = turn.normalized_response
        if self._phase == "reply":
            self._phase = "reported"
            self.newest_reply, self.count = response, self.count + 1
            await call_back(self._on_reply, response)
        if not isinstance(turn.interpretation, ToolCalls):
            await act(self._run, turn)
        return response

    async def _stop(self, how: Stop) -> Ending:
        """End a run between two steps: the reply is stored, its calls are not run."""
        waiting: tuple[ToolCall, ...] = ()
        if self._turn is not None:
            async with self._lock():
                await read(self._run, self._turn)
                await act(self._run, self._turn, STOPPED)
                waiting = self._turn.waiting
        return replace(stopped(how, self._run), waiting=waiting)

    async def run_calls(self) -> tuple[Message, ...]:
        """Run the calls of the newest reply, if that was not done; return the result messages.

        Before the first reply, these are the calls at the end of the messages.
        """
        run, turn = self._run, self._turn  # another task may complete the turn meanwhile
        if self._phase in ("request", "over"):
            return ()
        async with self._continued(), self._lock():
            self._begin()
            if turn is None and self._phase != "new":
                return ()
            if turn is None:
                await stoppable(run, self._run_open_calls)
                records = tuple(run.records)
            else:
                await stoppable(run, partial(act, run, turn))
                await act(run, turn, STOPPED)  # where it was stopped before
                records = turn.records
        return tuple(record.message for record in records if record.message is not None)

    async def check_outside(self) -> None:
        """Check that the caller is not part of the run, whose end it would wait for.

        Raises:
            RuntimeError: The caller is part of the run.
        """
        async with session_lock(self._run.transcript, self._name):
            pass

    def result_of(self, ending: Ending) -> ToolLoopResult:
        """The result of the run, which has ended."""
        return result_of(self._run, ending)

    async def end(self, result: ToolLoopResult) -> None:
        """Report once that the run is over.

        Raises:
            Exception: A listener raised.
        """
        await self._run.end(result)

    async def leave(self, error: Exception) -> None:
        """Report that the program has left the run before its end."""
        await self._run.fail(error, status="cancelled")

    def _stored_messages(self) -> tuple[Message, ...]:
        return self._run.transcript.messages

    async def _apply_edits(self) -> bool:
        """Apply the edits; return whether there is something new to answer."""
        run, pushed, question = self._run, [*self.edits.pushed], self.edits.question
        self._apply_params()
        if self.edits.changed_messages and await run.transcript.open_calls():
            return False  # the calls wait for approval; their results must follow them directly
        replaced = self._replace_messages()
        if replaced:
            await run.transcript.repair_history()
        if pushed:
            await run.transcript.append(*pushed)
            self.edits.remove_pushed(len(pushed))
        if question is None and (replaced or not run.counts.requests):
            question = last_question(await run.transcript.history())
        run.question = question or run.question
        return bool(pushed) and run.counts.limit_reached() is None

    def _apply_params(self) -> None:
        """Use the newest options, model and tools; a reply that is open keeps its tools."""
        self._run.deps = self._deps_with(self.edits.latest)
        self._run.change_options(self.edits.latest)

    def _deps_with(self, params: RunnerParams) -> ToolLoopDeps:
        """The parts with the model and the tools of the parameters."""
        deps = self._deps
        if isinstance(params.tools, ToolRegistry):
            deps = replace(deps, tool_registry=params.tools)
        if (model := params.gateway) is not None:
            stream = model.stream if deps.stream else None
            deps = replace(deps, chat=model.chat, stream=stream, gateway=model)
        return deps

    def _replace_messages(self) -> bool:
        """Start a new transcript if the messages were replaced; return whether they were."""
        messages = self.edits.take_replaced()
        if messages is not None:
            self._run.transcript = self._run.deps.context_engine.transcript_of(messages)
            self._run.question = self._run.last_selection = None
        return messages is not None
