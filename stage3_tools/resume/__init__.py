"""Calls that an earlier run left without results.

open_calls   run them, or close them
"""
