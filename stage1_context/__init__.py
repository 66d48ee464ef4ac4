"""Stage 1: which messages does the model see?

Sessions are append-only journals. A request contains a window of them. This stage knows neither
HTTP nor tools.

Reading order:
    errors        the errors of this stage
    journal       the records of a session
    history       query the messages of a session
    tokens        count the tokens of a message
    window        select the newest whole exchanges that fit
    store         store journals; in memory
    variables     store values that a model passes on without reading them
    transcript    append to a session and select the messages of a request
    engine        ContextEngine: sessions, stores and windows together

Rooms:
    counting/      token counters and their calibration
    view/          read a journal, project it to messages, select and explain them
    recovery/      open calls, and the repair of a damaged history
    stores/        SQLite, PostgreSQL, export
    compaction/    let a model summarize old messages
"""

from importlib import import_module
from typing import TYPE_CHECKING

from stage1_context.compaction.compact import CompactionPolicy
from stage1_context.counting.calibration import Calibration
from stage1_context.counting.heuristic import ApproximateCounter
from stage1_context.counting.tiktoken import TiktokenCounter
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
    VariableDeletedRecord,
    VariableRecord,
    record_from_json,
    record_to_json,
)
from stage1_context.recovery.open_calls import OpenCalls
from stage1_context.store import MemoryStore, SessionInfo, SessionStore, check_session_id
from stage1_context.tokens import Counted, TokenCounter, message_tokens
from stage1_context.transcript import Compaction, Transcript
from stage1_context.variables import VariableStore
from stage1_context.view.explanation import Explained, Explanation, newly_dropped
from stage1_context.view.projection import is_summary
from stage1_context.view.selection import Selection
from stage1_context.window import (
    DropOldest,
    KeepEverything,
    KeepSystemAndRecent,
    TokenBudget,
    WindowPolicy,
)

if TYPE_CHECKING:
    from stage1_context.stores.postgres import PostgresStore
    from stage1_context.stores.sqlite import SqliteStore

__all__ = [
    "ApprovalPendingRecord",
    "ApproximateCounter",
    "Calibration",
    "CallFinishedRecord",
    "CallStartedRecord",
    "Compaction",
    "CompactionPolicy",
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
    "Selection",
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
    "VariableDeletedRecord",
    "VariableNotFound",
    "VariableRecord",
    "VariableStore",
    "WindowPolicy",
    "WindowTooSmall",
    "check_session_id",
    "is_summary",
    "message_tokens",
    "newly_dropped",
    "record_from_json",
    "record_to_json",
]

_LAZY = {"PostgresStore": "stores.postgres", "SqliteStore": "stores.sqlite"}
"""Names that are imported at their first use, because their libraries are slow to import."""

if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)

    def __dir__():
        return __all__
