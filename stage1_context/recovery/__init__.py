"""Recover a session after a crash, a cancellation or a conflict between writers.

Modules:
    open_calls    the calls without a result, and their progress
    repair        give each call one id and one result
"""
