"""The tools around the four stages.

This package imports the stages through their faces only, and no stage imports it.

Rooms:
    testing/       tests of the promises that a store, a wire format or a dialect makes
"""
