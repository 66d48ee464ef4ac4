"""`Steps`: a run that stops whenever the model has replied, and goes on when it is told to.

The loop itself is `run_turns`; here is only what it takes to stand between two of its steps: time that passes, an
abort, edits that come into force, a failure after which it goes on where it was. Each step holds the conversation for
itself, and nobody holds it in between. Used by `runner`.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from stage0_gateway import ChatResponse, Message, MessageStream, ToolCall
from stage1_context import MemoryStore
from stage3_tools.dialect import Calls
from stage3_tools.ending import Ending, stopped
from stage3_tools.events import LoopEnded
from stage3_tools.loop import alone, result_of, run_turns
from stage3_tools.loop_result import ToolLoopResult
from stage3_tools.newest_reply import NewestReply
from stage3_tools.options import ToolLoopDeps
from stage3_tools.outcome import STOPPED
from stage3_tools.resume import answer_open, last_question
from stage3_tools.run import Run
from stage3_tools.runner_params import Edits, RunnerParams
from stage3_tools.stopping import Stop, unless_stopped
from stage3_tools.turn import OpenTurn

Item = ChatResponse | MessageStream
"""What a step leads to: a reply, whole or while it arrives."""


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
        transcript = engine.transcript(session_id) if session_id else engine.transcript_of(params.said)
        self.edits = Edits(params, None if session_id else self._kept)
        self.count = 0
        self.last: ChatResponse | None = None
        self._run = Run(deps, transcript, watched(params), max_turns=max_iterations, between=self._edit)
        self._streams = params.stream
        self._watched, self._replied = watched, replied
        self._name = session_id or "The conversation of this runner"
        self._turns: AsyncIterator[OpenTurn | Ending] | None = None
        self._newest = NewestReply.none()
        self._ending: Ending | None = None
        self._begun = False
        self._has_started = False

    async def next(self) -> Item | Ending:
        """Up to the next reply, or to the end.

        Raises:
            GatewayError: The model could not be asked; the next step asks once more.
            Exception: What a listener or an approver raises; the history is sound then, too, and the next step goes
                on behind it.
        """
        if self._ending is None:
            self._start()
            item = await self._unless_stopped()
            if not isinstance(item, Ending):
                self._newest.given = True
                return item
            self._ending = item
        return self._ending

    def _start(self) -> None:
        if not self._has_started:
            self._has_started, self._run.started = True, time.perf_counter()

    async def _unless_stopped(self) -> Item | Ending:
        abort, left = self._run.options.abort, self._run.seconds_left
        if self._run.is_aborted:
            return await self._stopped("aborted")
        if left is not None and left <= 0:
            return await self._stopped("timeout")
        try:
            item = await unless_stopped(self._step_alone(), abort, left)
        except BaseException:
            if self._newest.edited or not self._newest.told:
                self._drop()
            elif self._newest.given:
                self._turns = None  # its turn was not over: it goes on where it was
            raise
        return self._ended(item) if isinstance(item, str) else item

    def _ended(self, how: Stop) -> Ending:
        return stopped(how, self._run.options)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Hold the conversation; whoever held it meanwhile has ended its exchange, and our reply comes behind it."""
        transcript = self._run.transcript
        async with alone(transcript, self._name):
            if self._run.seen is not None and await transcript.open_calls() is None:
                self._run.seen = transcript.length
            yield

    async def _step_alone(self) -> Item | Ending:
        async with self._alone():
            return await self._step()

    async def _step(self) -> Item | Ending:
        if not self._begun and (ending := await self._begin()):
            return ending
        if self._newest.turn is not None:
            self._tell(await self._newest.turn.understood())
        if self._newest.turn is None or self._newest.given:
            turn = await self._next_turn()
            if isinstance(turn, Ending):
                return turn
            self._take(turn)
        else:  # whoever was told of it failed before it was given
            turn = self._newest.turn
        return await self._item(turn)

    async def _begin(self) -> Ending | None:
        if ending := await self._answer_open():
            return ending
        if isinstance(self._run.transcript.store, MemoryStore) and self._run.transcript.session_id == "":
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

    def _take(self, turn: OpenTurn) -> None:
        self._newest = NewestReply(turn)
        self.count += 1

    async def _item(self, turn: OpenTurn) -> Item:
        if turn.stream is not None and self._streams:
            self._newest.listen(turn.stream)  # somebody else may read it
            return turn.stream
        self._tell(await turn.understood())
        if not isinstance(await turn.reading(), Calls):
            await turn.finish()  # nothing is to be run, so whoever leaves now leaves the reply in the history
        return await turn.understood()

    def _tell(self, response: ChatResponse) -> None:
        if not self._newest.told:
            self.last, self._newest.told = response, True
            self._replied(response)

    def _drop(self) -> None:
        """Forget the turn: it is over, or its reply never came whole."""
        self.count -= not self._newest.told
        self._turns, self._newest = None, NewestReply.none()

    def drop_failed(self) -> bool:
        """Forget a reply whose stream failed while somebody read it; returns whether there was one."""
        failed = self._newest.failed
        if failed:
            self._drop()
        return failed

    async def _stopped(self, how: Stop) -> Ending:
        """The run was stopped between two steps: a whole reply is kept, its calls are not run, or go on waiting."""
        waiting: tuple[ToolCall, ...] = ()
        if self._newest.turn is not None:
            async with self._alone():
                if self._newest.whole:
                    self._tell(await self._newest.turn.understood())
                    waiting = (await self._newest.turn.finish(STOPPED)).waiting
                elif self._newest.turn.stream is not None:
                    await self._newest.turn.stream.aclose()
        return replace(self._ended(how), waiting=waiting)

    async def respond(self) -> tuple[Message, ...]:
        """Run the calls of the newest reply, unless that was done; returns the messages with their results."""
        turn = self._newest.turn  # the one that is meant, also where a step comes first
        self._start()
        if self._newest.responded is None and not self._run.over:
            async with self._alone():
                if turn is not self._newest.turn:
                    return await self._respond(turn)
                if self._newest.responded is None:  # nobody else did it meanwhile
                    self._newest.responded = await self._respond(turn)
        return self._newest.responded or ()

    async def _respond(self, turn: OpenTurn | None) -> tuple[Message, ...]:
        await unless_stopped(self._answer(turn), self._run.options.abort, self._run.seconds_left)
        records = [] if self._begun else self._run.records
        if turn is not None and (
            turn is not self._newest.turn or self._newest.told
        ):  # else its stream was cut off
            records = [*(await turn.finish(STOPPED)).records]
        return tuple(each.message for each in records if each.message is not None)

    async def _answer(self, turn: OpenTurn | None) -> None:
        if turn is not None:
            response = await turn.understood()
            if turn is self._newest.turn:
                self._tell(response)
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
        return result_of(
            self._run, ending, time.perf_counter() - self._run.started if self._has_started else 0.0
        )

    def end(self, ending: Ending) -> None:
        """Tell that the run is over, once.

        Raises:
            Exception: What a listener raises.
        """
        if not self._run.over:
            self._run.over = True
            self._run.tell(LoopEnded, status=ending.status, reply=ending.reply)

    def _kept(self) -> tuple[Message, ...]:
        store = self._run.transcript.store
        assert isinstance(store, MemoryStore)
        return store.history(self._run.transcript.session_id).messages

    async def _edit(self) -> bool:
        """Let the edits come into force; returns whether there is something new to answer."""
        run, pushed, asked = self._run, [*self.edits.pushed], self.edits.question
        run.change(self._watched(self.edits.latest))
        self._streams = self.edits.latest.stream
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
        self._newest.edited = True
        return bool(pushed) and run.spent is None

    def _rewrite(self) -> bool:
        """Go on with other messages, if they were rewritten; returns whether they were."""
        rewritten = self.edits.take_rewritten()
        if rewritten is not None:
            self._run.transcript = self._run.deps.context_engine.transcript_of(rewritten)
            self._run.question = None
        return rewritten is not None
