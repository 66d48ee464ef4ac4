"""Accounting: what a reply cost, and whether the server read the whole prompt.

prices        `PriceTable` and `GenaiPrices`: token counts to dollars
usage_check   detects a server that truncated the prompt
"""
