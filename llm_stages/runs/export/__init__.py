"""Run files in the formats of other programs.

Modules:
    atif  a trajectory for datasets and evaluations: the Agent Trajectory Interchange Format, 1.7
    otel  spans for observability: OTLP JSON with OpenTelemetry's conventions for generative AI

Both receive a `Run` of the reader and return plain data.
"""
