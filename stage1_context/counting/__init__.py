"""Count tokens, correct the counts, and truncate messages to a number of tokens.

Modules:
    heuristic      estimate tokens without a tokenizer's files
    tiktoken       count tokens exactly in an encoding of OpenAI
    calibration    learn the server's tokens for each of ours
    truncate       shorten messages that are too long for a window
"""
