"""Run a coroutine in an event loop of its own, and check that it leaves nothing."""

import asyncio
import gc


def run_and_check_tasks(main, loop_factory=None):
    """Return the value of a coroutine.

    All of its tasks must have ended, and the loop must have reported no error.
    """
    errors = []

    def report(loop, context):
        errors.append(repr(context))

    async def checked():
        asyncio.get_running_loop().set_exception_handler(report)
        value = await main
        for _ in range(5):  # ended tasks run their callbacks, and abandoned generators are closed
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return value

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        value = runner.run(checked())
    gc.collect(1)  # the loop reports destroyed tasks, and exceptions that were never read
    assert errors == []
    return value
