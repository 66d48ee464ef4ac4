"""Run files: everything about a run, as JSON lines.

Modules:
    run_file        `RunFile`: the file, to which runs are appended
    recorder        write one run: its requests, replies, decisions, calls and results
    header          the first line: versions, model, session, dialect, options
    lines           encode values as JSON bytes, without secrets
    difference      a request as the difference from the previous one
    dropped         the messages that a request leaves out for the first time, with reasons
    interpretation  where in a reply the decision is, and which repairs it needed
    values          `Run` and its parts: the values of the reader
    reader          `read_runs` and `read_run`: rebuild the runs of a file
"""
