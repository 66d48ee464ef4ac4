"""`Calibration`: learn how many tokens a server counts for each token of our own count.

Our counts are estimates, except for models with a known encoding. After each reply the server
reports the tokens of the request. The smoothed ratio scales the next windows; no message is counted
again. The module does not know messages. An engine has one calibration for all sessions.
"""

from stage0_gateway import Usage

_MEMORY = 0.7
"""The weight of earlier reports when a new one arrives."""

_DOUBT = 2000
"""The tokens that must have been reported before requests become longer."""

_MARGIN = 1.03
"""A margin above the learned ratio, because the next message may be in another language."""

_CREDIBLE = (0.4, 2.5)
"""Other ratios have other causes: images, a prompt of the server, or a wrong report."""


class Calibration:
    """The learned ratio, shared by all sessions of an engine.

    Attributes:
        ratio: The server's tokens for each token of our own count; 1.0 until the first report.
    """

    def __init__(self) -> None:
        self.ratio = 1.0
        self._estimated = self._reported = 0.0
        self._doubt = float(_DOUBT)

    def learn(self, estimated: int, usage: Usage | None) -> None:
        """Learn from one request.

        Args:
            estimated: The tokens of the request by our own count.
            usage: The server's report. A report with cached tokens is ignored, because providers
                differ in whether the input includes them.
        """
        if usage is None or not usage.input_tokens or estimated <= 0:
            return
        if usage.cached_input_tokens or usage.cache_write_tokens:
            return
        if not _CREDIBLE[0] <= usage.input_tokens / estimated <= _CREDIBLE[1]:
            return
        self._estimated = self._estimated * _MEMORY + estimated
        self._reported = self._reported * _MEMORY + usage.input_tokens
        self._doubt = max(0.0, self._doubt - estimated)
        # A longer request may be refused, so only a ratio below 1 is doubted at first.
        doubt = self._doubt if self._reported < self._estimated else 0.0
        self.ratio = (self._reported + doubt) / (self._estimated + doubt) * _MARGIN
