"""`Steps`: a run that stops whenever the model has replied, and goes on when it is told to.

The loop itself is `run_turns`; here is only what it takes to stand between two of its steps: time
that passes, an abort, edits that come into force, a failure after which it goes on where it was.
Each step holds the conversation for itself, and nobody holds it in between. Used by `runner`.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from stage0_gateway import ChatResponse, Message, ToolCall
from stage1_context import MemoryStore
from stage3_tools.dialects.protocol import Calls
from stage3_tools.execution.results import STOPPED
from stage3_tools.loop import alone, result_of, run_turns
from stage3_tools.loop_result import ToolLoopResult
from stage3_tools.options import ToolLoopDeps
from stage3_tools.resume.open_calls import answer_open, last_question
from stage3_tools.run.cancellation import Stop, unless_stopped
from stage3_tools.run.state import Run
from stage3_tools.run.stop_policy import Ending, stopped
from stage3_tools.runner.params import Edits, RunnerParams
from stage3_tools.turn import OpenTurn


@dataclass(eq=False, slots=True)
class _NewestReply:
    """The newest reply, and what was done about it.

    Attributes:
        turn: Its turn; None before the first reply, and after one that failed.
        is_reported: Whether listeners were notified of it.
        is_given: Whether it was returned by a step.
        is_edited: Whether its turn is over, and edits have taken effect.
        results: The messages with the results of its calls, if they were requested.
    """

    turn: OpenTurn | None = None
    is_reported: bool = False
    is_given: bool = False
    is_edited: bool = False
    results: tuple[Message, ...] | None = None


class Steps:
    """A run, step by step.

    Args:
        deps: The pieces of the other stages.
        params: What it is to do.
        max_iterations: The most requests; None is no limit.
        watched: Gives parameters the listener that they are to have.
        replied: Told of each whole reply.

    Attributes:
        edits: What is to change when the present turn is over.
        count: How many replies there were.
        last: The newest whole one.
    """

    def __init__(
        self,
        deps: ToolLoopDeps,
        params: RunnerParams,
        max_iterations: int | None,
        watched: Callable[[RunnerParams], RunnerParams],
        replied: Callable[[ChatResponse], None],
    ) -> None:
        engine, session_id = deps.context_engine, params.session_id
        transcript = (
            engine.transcript(session_id) if session_id else engine.transcript_of(params.said)
        )
        self.edits = Edits(params, None if session_id else self._kept)
        self.count = 0
        self.last: ChatResponse | None = None
        self._run = Run(
            deps, transcript, watched(params), max_turns=max_iterations, between=self._edit
        )
        self._watched, self._replied = watched, replied
        self._name = session_id or "The conversation of this runner"
        self._turns: AsyncIterator[OpenTurn | Ending] | None = None
        self._newest = _NewestReply()
        self._ending: Ending | None = None
        self._begun = False
        self._has_started = False

    async def next(self) -> ChatResponse | Ending:
        """Up to the next reply, or to the end.

        Raises:
            GatewayError: The model could not be asked; the next step asks once more.
            Exception: What a listener or an approver raises; the history is sound then, too, and
                the next step goes on behind it.
        """
        self._start()
        if self._run.max_turns == 0:
            return Ending(
                "limit", None, "Nothing ran: max_iterations is 0, so the model was not asked."
            )
        if self._ending is None:
            item = await self._unless_stopped()
            if not isinstance(item, Ending):
                self._newest.is_given = True
                return item
            self._ending = item
        return self._ending

    def _start(self) -> None:
        if not self._has_started:
            self._has_started, self._run.started = True, time.perf_counter()

    async def _unless_stopped(self) -> ChatResponse | Ending:
        run = self._run
        if run.is_stopped:
            return await self._stopped("aborted" if run.is_aborted else "timeout")
        try:
            item = await unless_stopped(self._step_alone(), run.options.abort, run.seconds_left)
        except BaseException:
            if self._newest.is_edited or not self._newest.is_reported:
                # The turn is over, or its reply never arrived.
                self._turns, self._newest = None, _NewestReply()
            elif self._newest.is_given:
                self._turns = None  # its turn was not over: it goes on where it was
            raise
        return stopped(item, self._run.options) if isinstance(item, str) else item

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Hold the conversation; whoever held it meanwhile has ended its exchange, and our reply
        comes behind it.
        """
        transcript = self._run.transcript
        async with alone(transcript, self._name):
            if self._run.seen is not None and await transcript.open_calls() is None:
                self._run.seen = transcript.length
            yield

    async def _step_alone(self) -> ChatResponse | Ending:
        async with self._alone():
            return await self._step()

    async def _step(self) -> ChatResponse | Ending:
        if not self._begun and (ending := await self._begin()):
            return ending
        if self._newest.turn is None or self._newest.is_given:
            turn = await self._next_turn()
            if isinstance(turn, Ending):
                return turn
            self._newest = _NewestReply(turn)
        else:  # a listener failed before the reply was returned
            turn = self._newest.turn
        return await self._reply(turn)

    async def _begin(self) -> Ending | None:
        if ending := await self._answer_open():
            return ending
        if (
            isinstance(self._run.transcript.store, MemoryStore)
            and self._run.transcript.session_id == ""
        ):
            await self._run.transcript.repair_history()  # messages may come from anywhere
        self._begun = True
        return None

    async def _answer_open(self) -> Ending | None:
        """Answer the calls at the end of the messages, as these are by now."""
        self._rewrite()
        self._run.question = self.edits.question
        return await answer_open(self._run)

    async def _next_turn(self) -> OpenTurn | Ending:
        if self._turns is None:
            if self._newest.turn is None:
                await self._edit()
            self._turns = run_turns(self._run, self._newest.turn)
            if self._newest.turn is not None:
                await anext(self._turns)  # it was given already
        return await anext(self._turns)

    async def _reply(self, turn: OpenTurn) -> ChatResponse:
        self._report(await turn.understood())
        if not isinstance(await turn.reading(), Calls):
            await (
                turn.finish()
            )  # nothing is to be run, so whoever leaves now leaves the reply in the history
        return await turn.understood()

    def _report(self, response: ChatResponse) -> None:
        if not self._newest.is_reported:
            self.last, self._newest.is_reported = response, True
            self.count += 1
            self._replied(response)

    async def _stopped(self, how: Stop) -> Ending:
        """The run was stopped between two steps: the reply is kept, its calls are not run, or go on
        waiting.
        """
        waiting: tuple[ToolCall, ...] = ()
        if self._newest.turn is not None:
            async with self._alone():
                waiting = (await self._newest.turn.finish(STOPPED)).waiting
        return replace(stopped(how, self._run.options), waiting=waiting)

    async def respond(self) -> tuple[Message, ...]:
        """Run the calls of the newest reply, unless that was done; returns the messages with their
        results.
        """
        turn = self._newest.turn  # the one that is meant, also where a step comes first
        self._start()
        if self._newest.results is None and not self._run.over:
            async with self._alone():
                if turn is not self._newest.turn:
                    return await self._respond(turn)
                if self._newest.results is None:  # no other task did it meanwhile
                    self._newest.results = await self._respond(turn)
        return self._newest.results or ()

    async def _respond(self, turn: OpenTurn | None) -> tuple[Message, ...]:
        await unless_stopped(self._answer(turn), self._run.options.abort, self._run.seconds_left)
        records = [] if self._begun else self._run.records
        if turn is not None:
            records = [*(await turn.finish(STOPPED)).records]
        return tuple(each.message for each in records if each.message is not None)

    async def _answer(self, turn: OpenTurn | None) -> None:
        if turn is not None:
            await turn.finish()
        elif not self._begun:
            await self._answer_open()

    async def outside(self) -> None:
        """For whoever is about to wait for the end of the run.

        Raises:
            RuntimeError: It is a part of the run, which would wait for itself.
        """
        async with alone(self._run.transcript, self._name):
            pass

    def result(self, ending: Ending) -> ToolLoopResult:
        """What became of the run, which is over."""
        return result_of(self._run, ending)

    def end(self, ending: Ending) -> None:
        """Report once that the run is over.

        Raises:
            Exception: What a listener raises.
        """
        self._run.end(ending.status, ending.reply)

    def _kept(self) -> tuple[Message, ...]:
        store = self._run.transcript.store
        assert isinstance(store, MemoryStore)
        return store.history(self._run.transcript.session_id).messages

    async def _edit(self) -> bool:
        """Let the edits come into force; returns whether there is something new to answer."""
        run, pushed, asked = self._run, [*self.edits.pushed], self.edits.question
        run.change(self._watched(self.edits.latest))
        if self.edits.changed_messages and await run.transcript.open_calls():
            return False  # they wait for approval, and nothing may stand between them and their results
        rewritten = self._rewrite()
        if rewritten:
            await run.transcript.repair_history()
        if pushed:
            await run.transcript.append(*pushed)
            self.edits.taken(len(pushed))
        if asked is None and (rewritten or not run.turns):
            asked = last_question(await run.transcript.history())
        run.question = asked or run.question
        self._newest.is_edited = True
        return bool(pushed) and run.spent is None

    def _rewrite(self) -> bool:
        """Go on with other messages, if they were rewritten; returns whether they were."""
        rewritten = self.edits.take_rewritten()
        if rewritten is not None:
            self._run.transcript = self._run.deps.context_engine.transcript_of(rewritten)
            self._run.question = None
        return rewritten is not None
