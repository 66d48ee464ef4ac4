"""Count tokens, and correct the counts.

Modules:
    heuristic      estimate tokens without a tokenizer's files
    tiktoken       count tokens exactly in an encoding of OpenAI
    calibration    learn the server's tokens for each of ours
"""
