"""`Steps`: a run that stops whenever the model has replied, and goes on when it is told to.

The loop itself is `run_turns`; here is only what it takes to stand between two of its steps: time that passes, an
abort, edits that come into force. Each step holds the conversation for itself, and nobody holds it in between. Used
by `runner`.
"""

import time
from collections.abc import AsyncIterator, Callable, Sequence

from stage0_gateway import ChatResponse, Message, MessageStream
from stage1_context import MemoryStore
from stage3_tools.dialect import Calls
from stage3_tools.ending import Ending
from stage3_tools.events import LoopEnded
from stage3_tools.loop import alone, result_of, run_turns
from stage3_tools.loop_result import ToolLoopResult
from stage3_tools.options import ToolLoopDeps
from stage3_tools.result import ToolCallRecord
from stage3_tools.resume import answer_open
from stage3_tools.run import Run
from stage3_tools.runner_params import Edits, RunnerParams
from stage3_tools.stopping import unless_stopped
from stage3_tools.turn import OpenTurn

Item = ChatResponse | MessageStream
"""What a step leads to: a reply, whole or while it arrives."""

_ABORTED = Ending("aborted", None, "The run was stopped by its abort event.")


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
        self._name = session_id or "of these messages"
        self._turns: AsyncIterator[OpenTurn | Ending] | None = None
        self._turn: OpenTurn | None = None
        self._responded: tuple[Message, ...] | None = None
        self._begun = False
        self._told = True  # of the newest reply
        self._started = 0.0

    async def next(self) -> Item | Ending:
        """Up to the next reply, or to the end.

        Raises:
            GatewayError: The model could not be asked; the next step asks once more.
            Exception: What a listener or an approver raises; the history is sound then, too.
        """
        self._started = self._started or time.perf_counter()
        abort, limits = self._run.options.abort, self._run.options.limits
        if abort is not None and abort.is_set():
            return await self._aborted()
        left = None
        if limits is not None and limits.seconds is not None:
            left = self._started + limits.seconds - time.perf_counter()
        try:
            item = await unless_stopped(self._alone(), abort, left)
        except BaseException:
            self._turns = self._turn = self._responded = None
            raise
        if item == "timeout":
            return Ending("timeout", None, "The run took longer than its limit of time.")
        return _ABORTED if item == "aborted" else item

    async def respond(self) -> tuple[Message, ...]:
        """Run the calls of the newest reply, unless that was done; returns the messages with their results."""
        if self._responded is None:
            async with alone(self._run.transcript, self._name):
                records = await self._respond()
            self._responded = tuple(each.message for each in records if each.message is not None)
        return self._responded

    async def _respond(self) -> Sequence[ToolCallRecord]:
        if self._turn is not None:
            return (await self._turn.finish()).records
        before = len(self._run.records)
        await answer_open(self._run)
        return self._run.records[before:]

    def result(self, ending: Ending) -> ToolLoopResult:
        """What became of the run, which is over."""
        self._run.over = True
        self._run.emit(LoopEnded(turn=self._run.turns, status=ending.status, reply=ending.reply))
        return result_of(self._run, ending, time.perf_counter() - self._started if self._started else 0.0)

    async def _alone(self) -> Item | Ending:
        async with alone(self._run.transcript, self._name):
            return await self._step()

    async def _step(self) -> Item | Ending:
        if not self._begun:
            if ending := await answer_open(self._run):
                return ending
            await self._begin()
        if self._turn is not None:
            self._tell(await self._turn.understood())
        self._turns = self._turns or run_turns(self._run)
        turn = await anext(self._turns)
        if isinstance(turn, Ending):
            return turn
        self._turn, self._responded, self._told = turn, None, False
        self.count += 1
        if turn.stream is not None and self._streams:
            return turn.stream
        self._tell(await turn.understood())
        if not isinstance(await turn.reading(), Calls):
            await turn.finish()  # nothing is to be run, so whoever leaves now leaves the reply in the history
        return await turn.understood()

    async def _begin(self) -> None:
        if isinstance(self._run.transcript.store, MemoryStore) and self._run.transcript.session_id == "":
            await self._run.transcript.repair_history()  # messages may come from anywhere
        await self._edit()
        self._begun = True

    def _tell(self, response: ChatResponse) -> None:
        if not self._told:
            self.last, self._told = response, True
            self._replied(response)

    async def _aborted(self) -> Ending:
        """The run was stopped between two steps: a whole reply is kept, its calls are not run."""
        if self._turn is not None and self._told:
            async with alone(self._run.transcript, self._name):
                await self._turn.finish("The run was stopped before this call was run.")
        return _ABORTED

    def _kept(self) -> tuple[Message, ...]:
        store = self._run.transcript.store
        assert isinstance(store, MemoryStore)
        return store.history(self._run.transcript.session_id).messages

    async def _edit(self) -> bool:
        """Let the edits come into force; returns whether there is something new to answer."""
        run = self._run
        params, rewritten, pushed = self.edits.take()
        run.change(self._watched(params))
        self._streams = params.stream
        if rewritten is not None:
            run.transcript = run.deps.context_engine.transcript_of(rewritten)
            await run.transcript.repair_history()
        if pushed:
            await run.transcript.append(*pushed)
        self.edits.taken(len(pushed))
        asked = (each for each in reversed(pushed) if each.role == "user")
        run.question = next(asked, run.question)
        return bool(pushed)
