"""Recordings: real traffic in a file, without secrets, and its replay.

private_file  creates files that only their owner may read; all stages use it
credentials   finds the credentials in a request
format        the file: one exchange per line
recorder      `Recorder`: a transport that records traffic
replayer      `Replayer`: a transport that replays a recording
"""
