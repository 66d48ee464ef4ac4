"""Stage 1: which messages does the model see?

Sessions are append-only journals; what is sent is a window on them. Knows nothing of HTTP or tools.

Reading order:
    errors               what can go wrong with sessions, stores and windows
    journal              what happened, one record after the other
    history              look at a conversation without changing it
    view                 which messages are shown, after summaries and repairs
    tokens               how many tokens a message takes
    approximate          a count without files, deliberately not low
    store                where journals are kept
    window               the newest exchanges that fit
    tail                 the newest part of a conversation, read backwards
    calibration          learn from what servers report
    selection            a window and a conversation together
    concurrency          locks, and writes that cancellation does not interrupt
    claims               each record once, beside other writers
    open_calls           calls that have no result yet
    transcript           one conversation as a loop sees it
    engine               ContextEngine: sessions, stores and windows together

Sometimes:
    exact                a count by the files of a model's encoding
    sqlite_file          a SQLite file and its tables
    sqlite               sessions in one file
    postgres_schema      tables in PostgreSQL, and what is asked of them
    postgres             sessions for more than one machine
    repair               one result for each call, after a crash
    cut                  messages too long for a window
    explanation          what was dropped, and why
    summarizing          what a model is told that summarizes
    compaction           when to summarize, and what
    variables            values put aside
    export               a session as text
"""

from importlib import import_module
from typing import TYPE_CHECKING

from stage1_context.claims import Claims
from stage1_context.counting.calibration import Calibration
from stage1_context.counting.heuristic import ApproximateCounter
from stage1_context.engine import ContextEngine
from stage1_context.errors import (
    ContextError,
    SessionConflict,
    SessionExists,
    SessionNotFound,
    StoreFailed,
    VariableNotFound,
    WindowTooSmall,
)
from stage1_context.history import MessageHistory
from stage1_context.journal import (
    ApprovalPendingRecord,
    CallFinishedRecord,
    CallStartedRecord,
    MessageRecord,
    Record,
    RepairRecord,
    SummaryRecord,
    VariableRecord,
    record_from_json,
    record_to_json,
)
from stage1_context.store import MemoryStore, SessionInfo, SessionStore
from stage1_context.tokens import Counted, TokenCounter, message_tokens
from stage1_context.transcript import Transcript
from stage1_context.recovery.open_calls import OpenCalls
from stage1_context.window import (
    DropOldest,
    KeepEverything,
    KeepSystemAndRecent,
    TokenBudget,
    WindowPolicy,
)

if TYPE_CHECKING:  # what is needed only sometimes
    from stage1_context.compaction.compact import Compaction
    from stage1_context.counting.tiktoken import TiktokenCounter
    from stage1_context.stores.postgres import PostgresStore
    from stage1_context.stores.sqlite import SqliteStore
    from stage1_context.variables import VariableStore
    from stage1_context.view.explanation import Explained, Explanation

__all__ = [
    "ApprovalPendingRecord",
    "ApproximateCounter",
    "Calibration",
    "CallFinishedRecord",
    "CallStartedRecord",
    "Claims",
    "Compaction",
    "ContextEngine",
    "ContextError",
    "Counted",
    "DropOldest",
    "Explained",
    "Explanation",
    "KeepEverything",
    "KeepSystemAndRecent",
    "MemoryStore",
    "MessageHistory",
    "MessageRecord",
    "OpenCalls",
    "PostgresStore",
    "Record",
    "RepairRecord",
    "SessionConflict",
    "SessionExists",
    "SessionInfo",
    "SessionNotFound",
    "SessionStore",
    "SqliteStore",
    "StoreFailed",
    "SummaryRecord",
    "TiktokenCounter",
    "TokenBudget",
    "TokenCounter",
    "Transcript",
    "VariableNotFound",
    "VariableRecord",
    "VariableStore",
    "WindowPolicy",
    "WindowTooSmall",
    "message_tokens",
    "record_from_json",
    "record_to_json",
]

_SOMETIMES = {
    "Compaction": "compaction.compact",
    "Explained": "view.explanation",
    "Explanation": "view.explanation",
    "PostgresStore": "stores.postgres",
    "SqliteStore": "stores.sqlite",
    "TiktokenCounter": "counting.tiktoken",
    "VariableStore": "variables",
}
"""Names that are loaded when somebody asks for them, and the files they are in."""

if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _SOMETIMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_SOMETIMES[name]}"), name)
