"""`ToolRunner`: the loop, one reply at a time.

It is for programs that inspect replies, or change what follows them.

    async for response in runner:     the model has replied, no tool has run yet
        …                             inspect, push_messages, set_params, generate_tool_response
                                      then the tools run, edits take effect, and the next request
                                      is made

This module contains iteration, callbacks and waiting; the steps are in `stepper.py`. If the
iteration stops early, the history can be continued: a reply with calls is stored when its tools
start, and each call gets its result.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from stage0_gateway import FUNCTION, Accepted, ChatResponse, Message, ToolCall, check_arguments
from stage3_tools.events import LoopEvent, ToolAnswered, ToolCalled
from stage3_tools.options import ToolLoopDeps, type_error
from stage3_tools.result import ToolLoopResult, ToolResult
from stage3_tools.run.emitter import call_back, of_one_run
from stage3_tools.run.stop_policy import Ending
from stage3_tools.runner.params import RunnerParams
from stage3_tools.runner.stepper import TurnStepper

_ACCEPTED = {
    "max_iterations": Accepted(int, "a whole number", 0),
    "on_iteration": Accepted(FUNCTION, "a function of the number and the response"),
    "on_tool_call": Accepted(FUNCTION, "a function of one ToolCall"),
    "on_tool_result": Accepted(FUNCTION, "a function of one ToolResult"),
}


@dataclass(eq=False, slots=True)
class _Iteration:
    """One iteration of the run, to its end or to an exception.

    Attributes:
        is_over: Set when the iteration has ended.
        failure: The exception that ended it.
        task: The task that has the newest reply and must ask for the next one.
    """

    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    failure: BaseException | None = None
    task: asyncio.Task[Any] | None = None


class ToolRunner:
    """A run in steps: `async for response in runner`, or all at once: `await runner`.

    Each item is a reply of the model (`ChatResponse`). The last item is the reply without calls, or
    the newest reply if the run ended otherwise; `result` states how it ended. A runner can be
    iterated once. After an exception it can be iterated again, and continues. With
    `ToolLoopDeps(gateway, stream=True)`, the event `reply_stream` holds each reply while it
    arrives.

    Args:
        deps: The parts of the other stages.
        params: The parameters of the run.
        max_iterations: The maximum number of requests. None is no limit; 0 makes no request.
        on_iteration: Called as `on_iteration(number, response)` with each complete reply; the first
            number is 1.
        on_tool_call: Called as `on_tool_call(call)` with each `ToolCall` before it is checked and
            run.
        on_tool_result: Called as `on_tool_result(result)` with each `ToolResult`, in call order.

    Attributes:
        result: The result of the run when it is over; None before.

    Raises:
        TypeError: `deps` or `params` has the wrong type.
        ValueError: A number is out of range.
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
        if not isinstance(deps, ToolLoopDeps):
            raise type_error("deps", deps, ToolLoopDeps)
        if not isinstance(params, RunnerParams):
            raise type_error("params", params, RunnerParams)
        check_arguments(locals(), _ACCEPTED)
        self.result: ToolLoopResult | None = None
        self._on_iteration = on_iteration
        self._on_tool_call, self._on_tool_result = on_tool_call, on_tool_result
        listeners = (of_one_run(self._call_back),) if on_tool_call or on_tool_result else ()
        self._stepper = TurnStepper(deps, params, max_iterations, listeners, self._on_reply)
        self._is_consumed = False
        self._iteration = _Iteration()

    # ---- parameters

    @property
    def iteration_count(self) -> int:
        """The number of replies so far."""
        return self._stepper.count

    @property
    def params(self) -> RunnerParams:
        """The parameters with all changes so far. They are frozen; `set_params` replaces them."""
        return self._stepper.edits.params

    def set_params(self, params: RunnerParams | Callable[[RunnerParams], RunnerParams]) -> None:
        """Replace the parameters when the current turn is over.

        Args:
            params: The new parameters, which leave the conversation unchanged if they have no
                messages; or a function that receives the current parameters and returns new ones.

        Raises:
            Exception: The function raised. The parameters are unchanged.
            ValueError: The parameters name another session, or leave out messages of a session.
            TypeError: The parameters are not `RunnerParams`.
            RuntimeError: The run is over.
        """
        self._check_not_over()
        self._stepper.edits.change(
            params if callable(params) else partial(_with_conversation, params)
        )

    def push_messages(self, *messages: Message | Mapping[str, Any]) -> None:
        """Add messages behind the current reply and its results; a push continues a finished run.

        Raises:
            ValueError: A message is invalid, or holds calls or a result.
            RuntimeError: The run is over.
        """
        self._check_not_over()
        self._stepper.edits.push(messages)

    async def generate_tool_response(self) -> tuple[Message, ...] | None:
        """Run the calls of the newest reply now instead of at the end of the step, and only once.

        Before the first iteration, these are the calls at the end of the messages.

        Returns:
            The result messages in call order; None if there are no calls, or if the run is over.

        Raises:
            Exception: A listener or an approver raised. Each call has its result.
        """
        return await self._stepper.run_calls() or None

    # ---- iteration

    def __aiter__(self) -> AsyncGenerator[ChatResponse, None]:
        if not self._consume():
            raise RuntimeError(
                "A runner can be iterated only once, and this one was iterated already. Create "
                "another runner."
            )
        return self._iterate(self._iteration)

    def _consume(self) -> bool:
        """Start the one iteration; after an exception another one may start."""
        if self._is_consumed:
            return False
        self._is_consumed = True
        if self._iteration.failure is not None:
            self._iteration = _Iteration()
        return True

    async def _iterate(self, iteration: _Iteration) -> AsyncGenerator[ChatResponse, None]:
        try:
            while not isinstance(item := await self._stepper.next(), Ending):
                iteration.task = asyncio.current_task()
                yield item
                iteration.task = None
            self.result = self._stepper.result_of(item)
            await self._stepper.end(self.result)
        except GeneratorExit:
            iteration.failure = left = RuntimeError(
                "The iteration was stopped before the run was over. Another runner can continue "
                "with `params.messages`, or in the session."
            )
            await self._stepper.leave(left)
            raise
        except asyncio.CancelledError:
            iteration.failure = RuntimeError("The iteration was cancelled.")
            self._is_consumed = False
            raise
        except BaseException as error:
            iteration.failure, self._is_consumed = error, False
            raise
        finally:
            iteration.is_over.set()

    async def run_until_done(self) -> ChatResponse:
        """Iterate to the end, or wait for the iteration that has started; return the last reply.

        Raises:
            GatewayError: The model could not be reached.
            RuntimeError: No request was made, because `max_iterations` is 0; or the iteration was
                stopped early.
        """
        if self._consume():
            async for _ in self._iterate(self._iteration):
                pass
        return await self.done()

    async def done(self) -> ChatResponse:
        """Wait until another task has iterated to the end; return the last reply.

        Raises:
            Exception: The exception that ended the iteration.
            RuntimeError: No request was made, the iteration was stopped early, or the caller itself
                iterates and would wait forever.
        """
        iteration = self._iteration
        if not iteration.is_over.is_set():
            if iteration.task is not None and iteration.task is asyncio.current_task():
                raise RuntimeError(
                    "The run is not over, and this task must continue its iteration: waiting here "
                    "would never end. Another runner can continue with `params.messages`, or in "
                    "the session."
                )
            await self._stepper.check_outside()
            await iteration.is_over.wait()
        if iteration.failure is not None:
            raise iteration.failure
        if self._stepper.newest_reply is None:
            reason = self.result.status_reason if self.result else None
            raise RuntimeError(reason or "No request was made.")
        return self._stepper.newest_reply

    def __await__(self) -> Generator[Any, None, ChatResponse]:
        return self.run_until_done().__await__()

    # ---- callbacks

    async def _on_reply(self, response: ChatResponse) -> None:
        await call_back(self._on_iteration, self.iteration_count, response)

    async def _call_back(self, event: LoopEvent) -> None:
        """Call the callbacks that an event concerns."""
        if isinstance(event, ToolCalled):
            await call_back(self._on_tool_call, event.call)
        if isinstance(event, ToolAnswered):
            await call_back(self._on_tool_result, event.result)

    def _check_not_over(self) -> None:
        if self.result is not None:
            raise RuntimeError("The run is over. Create another runner.")


def _with_conversation(params: RunnerParams, current: RunnerParams) -> RunnerParams:
    """Parameters without messages or session keep the current ones."""
    if not isinstance(params, RunnerParams) or params.messages:
        return params
    session_id = current.session_id if params.session_id is None else params.session_id
    return replace(params, messages=current.messages, session_id=session_id)
