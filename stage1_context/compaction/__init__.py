"""Compact a session: let a model summarize its old messages.

Modules:
    summarize    request a summary, piece by piece
    compact      decide when to summarize, and which messages
"""
