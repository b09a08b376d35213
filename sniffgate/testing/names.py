"""The names of a virtual network."""

from collections.abc import Sequence


class Names(dict[str, Sequence[str]]):
    """Names and their addresses, to be changed at will.

    `delay` is how long a look-up takes, in seconds; while `failing`, none succeeds.
    """

    delay: float = 0.0
    failing: bool = False
