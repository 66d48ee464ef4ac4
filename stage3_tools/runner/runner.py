"""`ToolRunner`: the loop, step by step, for whoever wants to look at each reply, or to change what
comes next.

    async for response in runner:     the model has replied; no tool of it was run yet
        …                             look, push_messages, set_params, generate_tool_response, break
                                      here the tools run, then edits take effect, then the model is
                                      asked again

Here is who may iterate, who waits, and who is told; the steps are `stepping.py`. Whoever leaves in
the middle leaves a sound history: a reply with calls is stored when its tools begin, and then each
call gets its result.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from stage0_gateway import ChatResponse, Message, ToolCall
from stage3_tools.events import LoopEvent, ToolAnswered, ToolCalled
from stage3_tools.loop_result import ToolLoopResult
from stage3_tools.options import ToolLoopDeps, check_kind, check_listener
from stage3_tools.result import ToolResult
from stage3_tools.run.stop_policy import Ending
from stage3_tools.runner.params import RunnerParams
from stage3_tools.runner.stepper import Steps


@dataclass(eq=False, slots=True)
class _Iteration:
    """One way through the run, to its end or to a failure; after that there may be another."""

    over: asyncio.Event = field(default_factory=asyncio.Event)
    failure: BaseException | None = None
    task: asyncio.Task[Any] | None = None
    """Whose turn it is to ask for the next reply."""


class ToolRunner:
    """A run that is taken step by step: `async for response in runner`, or all at once: `await
    runner`.

    Each item is a reply of the model (`ChatResponse`). The last one is the reply without calls, or
    the newest one if the run ended otherwise; `result` states how it ended. A runner is iterated
    once; after an error it may be iterated again, and continues. With
    `ToolLoopDeps(stream=gateway.stream)`, the event `reply_stream` has each reply while it arrives.

    Args:
        deps: The pieces of the other stages.
        params: What it is to do.
        max_iterations: The most requests. None is no limit, 0 asks nobody.
        on_iteration: Called as `on_iteration(number, response)` with each whole reply, counted from
            1.
        on_tool_call: Called as `on_tool_call(call)` with each `ToolCall` before it is checked and
            run.
        on_tool_result: Called as `on_tool_result(result)` with each `ToolResult`, in call order.

    Attributes:
        result: What became of it all, when the run is over; else None.

    Raises:
        ValueError: A number makes no sense, or a function is async.
    """

    def __init__(
        self,
        deps: ToolLoopDeps,
        params: RunnerParams,
        *,
        max_iterations: int | None = None,
        on_iteration: Callable[[int, ChatResponse], object] | None = None,
        on_tool_call: Callable[[ToolCall], object] | None = None,
        on_tool_result: Callable[[ToolResult], object] | None = None,
    ) -> None:
        check_kind("deps", deps, ToolLoopDeps)
        check_kind("params", params, RunnerParams)
        if max_iterations is not None and max_iterations < 0:
            raise ValueError(f"max_iterations is {max_iterations}; 0 is the least, None no limit.")
        check_listener("on_iteration", on_iteration)
        check_listener("on_tool_call", on_tool_call)
        check_listener("on_tool_result", on_tool_result)
        self.result: ToolLoopResult | None = None
        self._on_iteration = on_iteration
        self._on_tool_call, self._on_tool_result = on_tool_call, on_tool_result
        self._steps = Steps(deps, params, max_iterations, self._watched, self._replied)
        self._consumed = False
        self._iteration = _Iteration()

    # ---- what may be looked at and changed
    # ---------------------------------------------------------------

    @property
    def iteration_count(self) -> int:
        """How many replies there were."""
        return self._steps.count

    @property
    def params(self) -> RunnerParams:
        """The parameters, with all that was changed so far. They are frozen: `set_params` changes
        them.
        """
        return self._steps.edits.params

    def set_params(self, params: RunnerParams | Callable[[RunnerParams], RunnerParams]) -> None:
        """Go on with other parameters when the present turn is over.

        Args:
            params: The new ones, which without messages leave those as they are; or a function that
                is given the present ones and returns the new ones.

        Raises:
            Exception: What the function raises; the parameters are then as they were.
            ValueError: They name another session, or leave out messages of one.
            TypeError: They are no `RunnerParams`.
            RuntimeError: The run is over.
        """
        self._refuse_when_over()
        self._steps.edits.change(
            params if callable(params) else partial(_with_its_messages, params)
        )

    def push_messages(self, *messages: Message | Mapping[str, Any]) -> None:
        """Say something more: it follows the present reply and its results, and the run goes on if
        it was over.

        Raises:
            ValueError: One is no message, or a call or a result, which the runner adds itself.
            RuntimeError: The run is over.
        """
        self._refuse_when_over()
        self._steps.edits.push(messages)

    async def generate_tool_response(self) -> tuple[Message, ...] | None:
        """Run the calls of the newest reply now, instead of at the end of this step. They are run
        only once.

        Before the first iteration these are the calls at the end of the messages, if there are any.

        Returns:
            The messages with their results, in call order; None where there are none, or the run is
            over.

        Raises:
            Exception: What a listener or an approver raises; every call has its result then, too.
        """
        return await self._steps.respond() or None

    # ---- iterating
    # ---------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncGenerator[ChatResponse, None]:
        if not self._taken():
            raise RuntimeError(
                "This runner was iterated already, and can be only once. Make another runner."
            )
        return self._iterate(self._iteration)

    def _taken(self) -> bool:
        """Take the one iteration; there is another one after a failure."""
        if self._consumed:
            return False
        self._consumed = True
        if self._iteration.failure is not None:
            self._iteration = _Iteration()
        return True

    async def _iterate(self, this: _Iteration) -> AsyncGenerator[ChatResponse, None]:
        try:
            while not isinstance(item := await self._steps.next(), Ending):
                this.task = asyncio.current_task()
                yield item
                this.task = None
            self.result = self._steps.result(item)
            self._steps.end(item)
        except GeneratorExit:
            this.failure = RuntimeError(
                "The iteration was left before the run was over. Another runner goes on: with `params.messages`, or "
                "in the session."
            )
            raise
        except asyncio.CancelledError:
            this.failure, self._consumed = RuntimeError("The iteration was cancelled."), False
            raise
        except BaseException as error:
            this.failure, self._consumed = error, False
            raise
        finally:
            this.over.set()

    # ---- all at once
    # -------------------------------------------------------------------------------------

    async def run_until_done(self) -> ChatResponse:
        """Iterate to the end, or wait for whoever iterates already; returns the last reply.

        Raises:
            GatewayError: The model could not be asked.
            RuntimeError: Nothing ran, because `max_iterations` is 0, or the iteration was left in
                the middle.
        """
        if self._taken():
            async for _ in self._iterate(self._iteration):
                pass
        return await self.done()

    async def done(self) -> ChatResponse:
        """Wait until somebody has iterated to the end; returns the last reply. It does not iterate
        itself.

        Raises:
            Exception: What ended the iteration.
            RuntimeError: Nothing ran, the iteration was left in the middle, or it is whoever asks
                here who iterates.
        """
        this = self._iteration
        if not this.over.is_set():
            if this.task is not None and this.task is asyncio.current_task():
                raise RuntimeError(
                    "The run is not over, and goes on only with this iteration: whoever left it, or is in the middle "
                    "of it, would wait for ever. Another runner goes on: with `params.messages`, or in the session."
                )
            await self._steps.outside()
            await this.over.wait()
        if this.failure is not None:
            raise this.failure
        if self._steps.last is None:
            why = self.result.status_reason if self.result else None
            raise RuntimeError(why or "Nothing ran.")
        return self._steps.last

    def __await__(self) -> Generator[Any, None, ChatResponse]:
        return self.run_until_done().__await__()

    # ---- whoever listens
    # ---------------------------------------------------------------------------------

    def _replied(self, response: ChatResponse) -> None:
        if self._on_iteration is not None:
            self._on_iteration(self.iteration_count, response)

    def _watched(self, params: RunnerParams) -> RunnerParams:
        """The parameters as the loop is given them: with our callbacks before their listener."""
        told = params.on_event

        def tell(event: LoopEvent) -> None:
            if isinstance(event, ToolCalled) and self._on_tool_call is not None:
                self._on_tool_call(event.call)
            if isinstance(event, ToolAnswered) and self._on_tool_result is not None:
                self._on_tool_result(event.result)
            if told is not None:
                told(event)

        return replace(params, on_event=tell)

    def _refuse_when_over(self) -> None:
        if self.result is not None:
            raise RuntimeError("The run is over, so nobody would answer. Make another runner.")


def _with_its_messages(given: RunnerParams, now: RunnerParams) -> RunnerParams:
    """Parameters that say nothing of messages, or of the session, leave them alone."""
    if not isinstance(given, RunnerParams) or given.messages:
        return given
    return replace(given, messages=now.messages, session_id=given.session_id or now.session_id)
