"""`ToolRunner`: the loop, one reply at a time.

Modules:
    params   `RunnerParams`, and the edits of a running runner
    stepper  a run that pauses after each reply
    runner   `ToolRunner`: iteration, callbacks, waiting
"""
