"""Calls that an earlier run left without results.

Modules:
    open_calls  run them now, or close them with a result
"""
