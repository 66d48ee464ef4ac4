"""`Calibration`: learn from what servers report how many of their tokens one of ours is.

Our counts are estimates, for every model but those whose encoding is at hand; a server tells after
each reply what the request really took. The ratio of the two, smoothed, scales the next windows; no
message is counted again for it. Knows no messages. Used by `selection` and `transcript`; an engine
has one for all its sessions.
"""

from stage0_gateway import Usage

_KEPT = 0.7
"""How much of what was learnt before counts when something new is learnt."""

_DOUBT = 2000
"""Tokens that must have been reported on before requests are made longer for it: a short one
teaches little."""

_MARGIN = 1.03
"""Kept above what was learnt: the next message may be in another language."""

_CREDIBLE = (0.4, 2.5)
"""A ratio beyond these is no matter of counting: pictures, a prompt of the server's own, a broken
report."""


class Calibration:
    """What was learnt so far; shared by all sessions of an engine.

    Attributes:
        ratio: Tokens of the server for each of ours; 1.0 until something was learnt.
    """

    def __init__(self) -> None:
        self.ratio = 1.0
        self._estimated = self._reported = 0.0  # tokens, those of earlier requests counting less
        self._doubt = float(_DOUBT)

    def learn(self, estimated: int, usage: Usage | None) -> None:
        """Learn from one request.

        Args:
            estimated: What we took the request for, in tokens.
            usage: What the server said. Where it names cached tokens it teaches nothing: whether
                they are part of its input differs from provider to provider.
        """
        if (
            usage is None
            or not usage.input_tokens
            or usage.cached_input_tokens
            or usage.cache_write_tokens
        ):
            return
        if estimated <= 0:
            return
        ratio = usage.input_tokens / estimated
        if not _CREDIBLE[0] <= ratio <= _CREDIBLE[1]:
            return
        self._estimated = self._estimated * _KEPT + estimated
        self._reported = self._reported * _KEPT + usage.input_tokens
        self._doubt = max(0.0, self._doubt - estimated)
        # Longer requests may be too long, shorter ones forget more than they need to: only the
        # first is in doubt.
        doubt = self._doubt if self._reported < self._estimated else 0.0
        self.ratio = (self._reported + doubt) / (self._estimated + doubt) * _MARGIN
