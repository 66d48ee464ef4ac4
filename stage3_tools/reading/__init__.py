"""Rules about the JSON of a decision: its position in the reply, and its keys.

Modules:
    position  whether JSON is the whole reply, the answer in it, or a mention
    keys      arguments under another key than "arguments"
"""
