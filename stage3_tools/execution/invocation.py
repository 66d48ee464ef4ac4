"""Call the function of a tool once: in a thread or in the event loop, under a time limit.

An async function runs in a task of its own:

    in time            its value is returned, or its exception is raised
    too late           it is cancelled and has `GRACE` seconds to end; its outcome is dropped
    caller cancelled   it is cancelled and has `GRACE` seconds to end; if it returns a value or
                       raises an exception of its own, that is its outcome, and otherwise the
                       cancellation propagates

A function that is still running after the grace period is abandoned. A second cancellation of the
caller ends the grace period.

A plain function runs in a daemon thread of its own. Without a pool, a function that hangs delays
neither other calls nor the end of the program. It cannot be cancelled, so it is abandoned at once.
"""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from stage3_tools.context import ToolContext
from stage3_tools.errors import ToolError, exception_text
from stage3_tools.tool import DEFAULT_TIMEOUT, Tool

GRACE = 1.0
"""Seconds that a cancelled function has to end before it is abandoned."""

_cancelled_tasks: set[asyncio.Task[Any]] = set()
"""Cancelled tasks that have not ended. The event loop keeps only weak references to its tasks."""


async def invoke(
    tool: Tool,
    arguments: Any,
    context: ToolContext | None = None,
    on_start: Callable[[], None] | None = None,
    limit: float | None = None,
) -> Any:
    """Call a tool's function once, immediately after `on_start`, and return its value.

    `limit` replaces the time limit of the tool, in seconds.

    Raises:
        ToolError: The function exceeded its time limit ("timeout"), or cancelled itself
            ("interrupted").
        BaseException: The function or `on_start` raised.
    """
    inputs: tuple[Any, ...] = (arguments,)
    if tool.takes_context:
        context = context or ToolContext(tool.name)
        inputs = (arguments, context)
    limit = limit or tool.timeout or DEFAULT_TIMEOUT
    caller = asyncio.current_task()
    cancellations = caller.cancelling() if caller else 0

    def is_cancelled() -> bool:
        return caller is not None and caller.cancelling() > cancellations

    task = asyncio.create_task(_run(tool, inputs, on_start, is_cancelled))
    error: BaseException | None = None
    has_returned = False
    try:
        try:
            await asyncio.wait({task}, timeout=limit)
        except asyncio.CancelledError:
            if not task.done():
                await _cancel(task, context)
            if not task.done() or task.cancelled():
                raise
            cancel_again()  # the function returned in spite of its cancellation
        if not task.done():
            await _cancel(task, context)
            message = f"{tool.name} took longer than {limit:g} s."
            # A function that ignores its cancellation must not run twice at the same time.
            raise ToolError("timeout", message, retryable=task.done())
        if task.cancelled():
            raise ToolError("interrupted", f"{tool.name} cancelled itself.")
        value, error = task.result()
        if error is not None:
            raise error
        has_returned = True
        return value
    finally:
        if context is not None:
            context.close(abort=not has_returned)
        # The traceback of the error refers to this frame and to `is_cancelled`. They must not refer
        # back to it, and the result of the caller's task may refer to the error.
        del task, error
        caller = None


async def _run(
    tool: Tool,
    inputs: tuple[Any, ...],
    on_start: Callable[[], None] | None,
    is_cancelled: Callable[[], bool],
) -> tuple[Any, BaseException | None]:
    """Return the value or the exception of a function.

    An exception that is raised in a task and never read would be logged. SystemExit and
    KeyboardInterrupt would end the event loop.
    """
    try:
        if is_cancelled():  # before the function starts
            raise asyncio.CancelledError
        if not tool.is_async:
            value = await run_in_thread(tool.execute, *inputs, on_start=on_start)
            return (await value if inspect.isawaitable(value) else value), None
        if on_start is not None:
            on_start()
        return await tool.execute(*inputs), None
    except asyncio.CancelledError:
        raise
    except GeneratorExit as error:  # the caller would take it for the end of its own coroutine
        return None, _runtime_error(error)
    except BaseException as error:
        return None, error
    finally:
        del on_start  # the function's frame refers to this one, which must not refer to the call


def _runtime_error(error: BaseException) -> RuntimeError:
    replacement = RuntimeError(f"GeneratorExit: {exception_text(error)}".removesuffix(": "))
    replacement.__cause__ = error
    return replacement


async def _cancel(task: asyncio.Task[Any], context: ToolContext | None) -> None:
    """Cancel a task and wait until it has ended, at most for the grace period."""
    if context is not None:
        context.close(abort=True)
    _cancelled_tasks.add(task)
    task.add_done_callback(_cancelled_tasks.discard)
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE)


def cancel_again() -> None:
    """Deliver a caught cancellation again, at the next `await` of the caller."""
    if (task := asyncio.current_task()) is not None:
        task.cancel()
        task.uncancel()  # the original request was counted already


async def run_in_thread(
    function: Callable[..., Any], *arguments: Any, on_start: Callable[[], None] | None = None
) -> Any:
    """Call a plain function in a daemon thread, with the context variables of the caller.

    If the caller is cancelled, a function that has not started is never called. One that has
    started continues, and its outcome is dropped.
    """
    outcome = asyncio.get_running_loop().create_future()
    function = partial(contextvars.copy_context().run, function, *arguments)
    inputs = (function, on_start, outcome)
    threading.Thread(target=_call, args=inputs, name="tool", daemon=True).start()
    value, error = await outcome
    try:
        if error is not None:
            raise error
        return value
    finally:
        # The traceback of the error refers to this frame, which must not refer back to it.
        del inputs, outcome, error, on_start


def _call(
    function: Callable[[], Any],
    on_start: Callable[[], None] | None,
    outcome: "asyncio.Future[Any]",
) -> None:
    """Call the function in its thread, and send its outcome to the event loop."""
    value: Any = None
    error: BaseException | None = None
    try:
        if on_start is not None and not outcome.cancelled():
            on_start()
        # The caller is cancelled after `on_start`, or the function is not called.
        if outcome.cancelled():
            return
        value = function()
    except BaseException as raised:
        error = raised
    with suppress(RuntimeError):  # the event loop is closed
        outcome.get_loop().call_soon_threadsafe(_settle, outcome, value, error)
    # The traceback of the error refers to this frame, which must not refer back to it.
    del outcome, error, on_start


def _settle(outcome: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
    if not outcome.done():
        outcome.set_result((value, error))
    elif inspect.iscoroutine(value):
        value.close()  # it will never be awaited
