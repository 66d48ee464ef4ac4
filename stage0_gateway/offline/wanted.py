"""A parameter as the teacher looks for it: the words of its name and description.

Knows no schema and no question. Used by everything that finds a value: `numbers`, `names`, `strings` and
`filling`.
"""

from dataclasses import dataclass

from stage0_gateway.offline.words import meanings, words_of

FREE = meanings(
    "query q text message question content prompt body input keyword topic phrase sentence command note "
    "comment subject task description search word"
)
"""Parameters of these names take any text."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A parameter to be filled.

    Attributes:
        name: Its name in the schema.
        words: The words of its name and, after them, of its description.
        required: Whether the tool cannot be called without it.
        own: How many of the words are of its name.
    """

    name: str
    words: tuple[str, ...]
    required: bool
    own: int

    def is_called(self, words: frozenset[str]) -> bool:
        """Whether its name holds one of these words."""
        return any(word in words for word in self.words[: self.own])

    def asks_for(self, words: frozenset[str]) -> bool:
        """Whether its name, or the start of its description, holds one of these words."""
        return any(word in words for word in self.words[: max(self.own, 3)])


def wanted(name: str, description: str, required: bool) -> Wanted:
    """Describe a parameter by its name and description."""
    own = words_of(name[:200]) or [name[:200].lower()]
    return Wanted(name, (*own, *words_of(description[:500])), required, len(own))
