"""The state of one run, and what decides its end.

    state          `RunState` and `Turn`: what a run has done so far
    notifier       call listeners, plain or async, in order
    tool_choice    what the first reply must call
    repeats        the same call several times in a row
    recorder       run the calls of a message and append one result for each
    cost_limit     a limit of the cost whose costs are unknown
    stop_policy    when a run ends, and with which status
    cancellation   stop a run by its abort event or its time limit
    keywords       the options of a run as keywords, for type checkers

The verbs that use them are in `turn.py` and `loop.py`.
"""
