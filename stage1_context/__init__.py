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

# The form `Name as Name` exports a name, also for type checkers.
from importlib import import_module
from typing import TYPE_CHECKING

from stage1_context.compaction.compact import CompactionPolicy as CompactionPolicy
from stage1_context.counting.calibration import Calibration as Calibration
from stage1_context.counting.heuristic import ApproximateCounter as ApproximateCounter
from stage1_context.counting.tiktoken import TiktokenCounter as TiktokenCounter
from stage1_context.engine import ContextEngine as ContextEngine
from stage1_context.errors import ContextError as ContextError
from stage1_context.errors import SessionConflict as SessionConflict
from stage1_context.errors import SessionExists as SessionExists
from stage1_context.errors import SessionNotFound as SessionNotFound
from stage1_context.errors import StoreFailed as StoreFailed
from stage1_context.errors import VariableNotFound as VariableNotFound
from stage1_context.errors import WindowTooSmall as WindowTooSmall
from stage1_context.history import MessageHistory as MessageHistory
from stage1_context.journal import ApprovalPendingRecord as ApprovalPendingRecord
from stage1_context.journal import CallFinishedRecord as CallFinishedRecord
from stage1_context.journal import CallStartedRecord as CallStartedRecord
from stage1_context.journal import MessageRecord as MessageRecord
from stage1_context.journal import Record as Record
from stage1_context.journal import RepairRecord as RepairRecord
from stage1_context.journal import SummaryRecord as SummaryRecord
from stage1_context.journal import VariableDeletedRecord as VariableDeletedRecord
from stage1_context.journal import VariableRecord as VariableRecord
from stage1_context.journal import record_from_json as record_from_json
from stage1_context.journal import record_to_json as record_to_json
from stage1_context.recovery.open_calls import OpenCalls as OpenCalls
from stage1_context.store import MemoryStore as MemoryStore
from stage1_context.store import SessionInfo as SessionInfo
from stage1_context.store import SessionStore as SessionStore
from stage1_context.store import check_session_id as check_session_id
from stage1_context.tokens import Counted as Counted
from stage1_context.tokens import TokenCounter as TokenCounter
from stage1_context.tokens import message_tokens as message_tokens
from stage1_context.transcript import Compaction as Compaction
from stage1_context.transcript import Transcript as Transcript
from stage1_context.variables import VariableStore as VariableStore
from stage1_context.view.explanation import Explained as Explained
from stage1_context.view.explanation import Explanation as Explanation
from stage1_context.view.explanation import newly_dropped as newly_dropped
from stage1_context.view.projection import is_summary as is_summary
from stage1_context.view.selection import Selection as Selection
from stage1_context.window import DropOldest as DropOldest
from stage1_context.window import KeepEverything as KeepEverything
from stage1_context.window import KeepSystemAndRecent as KeepSystemAndRecent
from stage1_context.window import TokenBudget as TokenBudget
from stage1_context.window import WindowPolicy as WindowPolicy

if TYPE_CHECKING:
    from stage1_context.stores.postgres import PostgresStore as PostgresStore
    from stage1_context.stores.sqlite import SqliteStore as SqliteStore

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
