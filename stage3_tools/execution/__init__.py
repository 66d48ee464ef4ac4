"""Run tool calls. Takes a `Tool` or a lookup; does not know the registry, the run or the history.

Modules:
    error_kinds    convert an exception to a `ToolError`, by its type
    arguments      parse and validate the JSON text of the arguments
    approval       approve, edit, reject or defer a call
    cache          results of read tools
    settings       the settings of calls
    results        results of calls that failed or were interrupted
    retries        which failed attempts are repeated
    invocation     call a tool's function once: thread, time limit, cancellation
    one_call       `PendingCall`: look up, parse, validate, approve, run, review
    several_calls  the calls of one reply, at the same time
"""
