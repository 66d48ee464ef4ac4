"""Derive a description and a JSON Schema from a Python function. Used by `tool.py`.

Modules:
    callables    properties of a function: async, generator, parameters, annotations
    docstring    the summary and the parameter descriptions of a docstring
    signature    the JSON Schema of the parameters
"""
