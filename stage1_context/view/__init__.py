"""Select what a model sees of a journal.

Modules:
    projection        the messages that a journal's records show
    journal_reader    read a journal from its end, then incrementally
    selection         apply a window to what was read
    explanation       explain a selection to people
"""
