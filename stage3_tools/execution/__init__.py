"""Run tool calls. Takes a `Tool` or a lookup; does not know the registry, the run or the history.

Modules:
    error_kinds    convert an exception to a `ToolError`, by its type
    arguments      parse and validate the JSON text of the arguments
    approval       approve, edit, reject or defer a call
    cache          results of read tools
    settings       options of all calls of a run; a validated call
    results        results of calls that failed or were interrupted
    retries        repeat failed attempts of tools that allow it
    invocation     call a tool's function once: thread, time limit, cancellation
    one_call       one call: look up, parse, validate, approve, run, result
    several_calls  the calls of one reply, at the same time
"""
