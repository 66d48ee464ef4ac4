"""This project with the extra `[fast]`, which is used if it is installed."""

from drivers.ours import FOLLOWED, IMPORT, PACKAGES, SPEAKS, asking, following, reading, snapshots

__all__ = ["FOLLOWED", "IMPORT", "PACKAGES", "SPEAKS", "TITLE", "asking", "following"]
__all__ += ["reading", "snapshots"]

TITLE = "llm-stages [fast]"
PACKAGES = (*PACKAGES, "aiohttp", "httpx-aiohttp", "jsonschema-rs")
IMPORT = f"{IMPORT}, stage0_gateway.http.fast"
