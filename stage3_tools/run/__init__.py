"""The state of one run, and what decides its end.

    counts         tokens, costs and turns; limits; the same call several times in a row
    emitter        pass events to the listeners, plain or async, in order
    typed_reply    the final reply of an `output_type`
    variables      long results, and the tool that reads them
    tool_choice    what the first reply must call
    state          `RunState` and `Turn`: what a run has done so far
    exchange       report a request and its reply
    calls          run the calls of a message and append one result for each
    stop_policy    when a run ends, and with which status
    cancellation   stop a run by its abort event or its time limit
    keywords       the options of a run as keywords, for type checkers

The verbs that use them are in `turn.py` and `loop.py`.
"""
