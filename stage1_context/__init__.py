"""Stage 1: which messages does the model see?

Sessions are append-only journals; what is sent is a window on them. Knows nothing of HTTP or tools.

Reading order:
    errors      what can go wrong with sessions and windows
    journal     what happened, one record after the other
    history     look at a conversation without changing it
    tokens      how many tokens a text takes
    window      the newest exchanges that fit
    store       where journals are kept
    transcript  one conversation as a loop sees it
    engine      ContextEngine: sessions, stores and windows together
"""

from stage1_context.engine import ContextEngine
from stage1_context.errors import ContextError, SessionExists, SessionNotFound, WindowTooSmall
from stage1_context.history import MessageHistory
from stage1_context.journal import MessageRecord, Record
from stage1_context.store import MemoryStore, SessionStore
from stage1_context.tokens import ApproximateCounter, TiktokenCounter, TokenCounter, message_tokens
from stage1_context.transcript import Transcript
from stage1_context.window import Counted, KeepEverything, KeepSystemAndRecent, WindowPolicy

__all__ = [
    "ApproximateCounter",
    "ContextEngine",
    "ContextError",
    "Counted",
    "KeepEverything",
    "KeepSystemAndRecent",
    "MemoryStore",
    "MessageHistory",
    "MessageRecord",
    "Record",
    "SessionExists",
    "SessionNotFound",
    "SessionStore",
    "TiktokenCounter",
    "TokenCounter",
    "Transcript",
    "WindowPolicy",
    "WindowTooSmall",
    "message_tokens",
]
