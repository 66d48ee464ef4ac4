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
    replay          repeat a run with its recorded replies and results; report differences
    fork            continue a run from one of its turns, with a change
    compare         compare two runs turn by turn
    public          the names that the package exports

Packages:
    page/           a run file as an HTML page
    export/         a run in the formats of other programs
"""
