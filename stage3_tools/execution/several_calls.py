"""The calls of one reply: prepared in order, run together under a cap, answered in order.

    prepare    a ─▶ b ─▶ c ─▶ d        looked up, checked and approved, one after the other
    run        a ┬ b                   at most `max_parallel` at once; c is exclusive, so it waits
    for those
                 c                     before it, and those behind it wait for c
                 d
    results    a ─▶ b ─▶ c ─▶ d        whatever finished first

One failing call costs its siblings nothing, and each call has exactly one result, also when
everything is stopped in the middle. Knows no history and no events: `answers.py` writes down what
comes out here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stage0_gateway import ToolCall
from stage3_tools.execution.approval import reviewed
from stage3_tools.execution.one_call import nobody_to_ask, prepare, run_ready
from stage3_tools.execution.results import interrupted
from stage3_tools.execution.settings import Execution, ReadyCall
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolResult

MAX_PARALLEL = 8
"""Tools that run at once, unless something else is said."""

_UNSEEN = "The tool was run, but the run was stopped before its result was approved."


@dataclass(eq=False, slots=True)
class _Place:
    """One call of the batch and how far it has come."""

    call: ToolCall
    ready: ReadyCall | None = None
    outcome: ToolResult | None = None  # before anybody was asked about it
    result: ToolResult | None = None
    task: asyncio.Task[None] | None = None
    begun: bool = False
    failure: BaseException | None = (
        None  # raised where the result is awaited; a task's own would be logged
    )

    def begin(self) -> None:
        """Note that the tool of the call is started."""
        self.begun = True


class Batch:
    """The calls of one reply, on their way.

    Args:
        registry: Where the tools are looked up.
        calls: The calls, each with an id of its own.
        execution: How they are executed.
        max_parallel: The most tools that run at once.
        known: Results that are there already, by call id; these calls are not run.
        on_finish: Awaited when one has ended, whatever those before it do.

    Raises:
        ValueError: There is no place for a single tool.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        calls: Sequence[ToolCall],
        execution: Execution,
        *,
        max_parallel: int = MAX_PARALLEL,
        known: Mapping[str, ToolResult] | None = None,
        on_finish: Callable[[ToolResult], Awaitable[None]] | None = None,
    ) -> None:
        if max_parallel < 1:
            raise ValueError(f"max_parallel is {max_parallel}; 1 is the least.")
        self._registry = registry
        self._execution = execution
        self._on_finish = on_finish
        self._places = [_Place(call, result=(known or {}).get(call.id)) for call in calls]
        self._slots = asyncio.Semaphore(max_parallel)

    @property
    def waiting(self) -> list[ReadyCall]:
        """Calls that wait for consent; while there are any, nothing is to be run."""
        return [
            place.ready for place in self._places if place.ready is not None and place.ready.waits
        ]

    async def prepare(self, tell: Callable[[ToolCall], None]) -> None:
        """Look up, check and have approved each call, in order.

        Args:
            tell: Called with each call just before that.

        Raises:
            Exception: What an approver or `tell` raises.
        """
        for place in self._places:
            tell(place.call)
            if place.result is not None:
                continue
            prepared = await prepare(self._registry, place.call, self._execution)
            if isinstance(prepared, ToolResult):
                place.result = prepared
            else:
                place.ready = prepared

    def refuse_waiting(self) -> None:
        """Where nobody can be asked, what waits for consent is rejected."""
        for place in self._places:
            if place.ready is not None and place.ready.waits:
                place.result, place.ready = nobody_to_ask(place.ready, self._registry), None

    async def run(self, note: Callable[[ToolResult], Awaitable[None]]) -> None:
        """Run the calls, after `prepare`.

        Args:
            note: Awaited with the results in call order, with each as soon as those before it are
                there.

        Raises:
            Exception: What an approver of results, `Execution.on_start` or `note` raises.
        """
        for group in self._groups():
            await obey()
            for place in group:
                if place.ready is not None:
                    place.task = asyncio.create_task(self._run(place, place.ready))
            for place in group:
                await note(place.result or await self._result(place))

    async def _result(self, place: _Place) -> ToolResult:
        assert place.task is not None  # what is not refused has been started
        assert place.ready is not None
        await asyncio.wait({place.task})  # to await the task itself would cancel it a second time
        if place.failure is not None:
            raise place.failure
        if place.outcome is None:  # cancelled, and not by us, who would not wait here any more
            result = interrupted(
                place.call, place.ready.tool, f"{place.call.name} cancelled itself."
            )
            place.result = replace(result, note=place.ready.note)
        else:
            place.result = await reviewed(place.ready, place.outcome, self._execution)
        return place.result

    async def stop(self) -> list[ToolResult]:
        """Cancel the running calls, wait for them, and return the results of all calls in order.

        A cancellation of the caller is delivered at its next `await`, after the results were
        returned.
        """
        tasks = [place.task for place in self._places if place.task is not None]
        for task in tasks:
            task.cancel()
        await _until_ended(tasks)
        return [place.result or self._cut_off(place) for place in self._places]

    def has_begun(self, place: int) -> bool:
        """Whether the tool of the call at this place was begun here."""
        return self._places[place].begun

    def _groups(self) -> Iterator[list[_Place]]:
        """Calls that may run together, in call order; an exclusive one is alone."""
        group: list[_Place] = []
        for place in self._places:
            alone = place.ready is not None and place.ready.tool.exclusive
            if alone and group:
                yield group
                group = []
            group.append(place)
            if alone:
                yield group
                group = []
        if group:
            yield group

    async def _run(self, place: _Place, ready: ReadyCall) -> None:
        try:
            await self._run_in_turn(place, ready)
        except asyncio.CancelledError:
            raise
        except BaseException as failure:
            place.failure = failure

    async def _run_in_turn(self, place: _Place, ready: ReadyCall) -> None:
        async with self._slots:
            if self._execution.on_start is not None:
                await self._execution.on_start(ready.call)
                await obey()
            try:
                place.outcome = await run_ready(ready, self._registry, self._execution, place.begin)
            except KeyboardInterrupt as failure:  # out of a task it would tear the event loop down
                place.failure = failure
                place.outcome = interrupted(place.call, ready.tool)
            if self._on_finish is not None:
                await self._on_finish(place.outcome)

    def _cut_off(self, place: _Place) -> ToolResult:
        """The result of a call that nobody waited for to the end."""
        tool = place.ready.tool if place.ready and place.begun else None
        result = place.outcome or interrupted(place.call, tool)
        if self._execution.approve_result is not None and result.status == "completed":
            result = interrupted(place.call, tool, _UNSEEN)
        return replace(result, note=place.ready.note if place.ready else result.note)


async def execute_tool_calls(
    registry: ToolRegistry,
    calls: Sequence[ToolCall],
    execution: Execution | None = None,
    *,
    max_parallel: int = MAX_PARALLEL,
) -> list[ToolResult]:
    """Run the calls of one reply without a loop.

    Args:
        registry: Where the tools are looked up.
        calls: The calls as the model wrote them.
        execution: None takes the defaults: nobody is asked, nothing is cached.
        max_parallel: The most tools that run at once.

    Returns:
        One result for each call, in call order. It never raises for what a model or a tool did.
    """
    execution = Execution() if execution is None else execution
    batch, results = (
        Batch(registry, calls, execution, max_parallel=max_parallel),
        list[ToolResult](),
    )

    async def note(result: ToolResult) -> None:
        results.append(result)

    try:
        await batch.prepare(lambda call: None)
        batch.refuse_waiting()
        await batch.run(note)
    except BaseException:
        await batch.stop()
        raise
    return results


async def obey() -> None:
    """Who was cancelled while something was written to its end sees it here, before anything else
    begins.
    """
    if (task := asyncio.current_task()) and task.cancelling():
        await asyncio.sleep(0)


async def _until_ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait until cancelled tasks have ended, which their tools cannot delay by more than the grace
    period.

    A cancellation of the caller is delivered afterwards.
    """
    cancelled = False
    while left := {task for task in tasks if not task.done()}:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError:
            cancelled = True
    for task in tasks:
        if not task.cancelled():
            task.exception()  # an exception that is never read would be logged
    if cancelled and (me := asyncio.current_task()):
        me.cancel()
        me.uncancel()  # it was counted when it was requested
