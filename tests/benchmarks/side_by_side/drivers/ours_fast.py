"""This project with the extra `[fast]`, which is used if it is installed."""

from drivers.ours import IMPORT, PACKAGES, SPEAKS, asking, reading, snapshots

__all__ = ["IMPORT", "PACKAGES", "SPEAKS", "TITLE", "asking", "reading", "snapshots"]

TITLE = "llm-stages [fast]"
PACKAGES = (*PACKAGES, "aiohttp", "httpx-aiohttp", "jsonschema-rs")
IMPORT = f"{IMPORT}, stage0_gateway.http.fast"
