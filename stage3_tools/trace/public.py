"""The public names of this room, for the package.

`stage3_tools/__init__.py` imports each name from its module at the first use.
"""

MODULES = {
    "RunFile": "run_file",
    "RunFileError": "problem",
    "read_run": "reader",
    "read_runs": "reader",
    "Candidate": "values",
    "DroppedMessage": "values",
    "Run": "values",
    "RunApproval": "values",
    "RunCall": "values",
    "RunDecision": "values",
    "RunEnd": "values",
    "RunError": "values",
    "RunParent": "values",
    "RunProgress": "values",
    "RunReply": "values",
    "RunRequest": "values",
    "RunResult": "values",
    "RunRetry": "values",
    "RunCompaction": "values",
    "RunTool": "values",
    "RunTurn": "values",
    "Unreadable": "values",
}
"""The module of each public name."""
