"""Run files: everything about a run, as JSON lines.

Modules:
    problem         `RunFileError`: a file is not a run file, or a line is damaged
    opening         open a run file to append to it; refuse every other file
    run_file        `RunFile`: the file, to which runs are appended
    writer          write the events of one run as lines
    rules           the rules by which replies are read, and when they changed
    lines           encode values as JSON bytes, without secrets
    difference      a request as the difference from the previous one
    interpretation  where in a reply the decision is, and which repairs it needed
    values          `Run` and its parts: the values of the reader
    validation      validate the lines of a file by `run.schema.json`
    reader          `read_runs` and `read_run`: rebuild the runs of a file
    replay          repeat a run with its recorded replies and results; report differences
    fork            continue a run from one of its turns, with a change
    matching        the lines that two texts have in common
    compare         compare two runs turn by turn

Packages:
    page/           a run file as an HTML page
    export/         a run in the formats of other programs
"""
