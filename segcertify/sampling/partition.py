"""Partition: how draws are put into batches, and where some are asked again.

On CUDA batches have one size, so that all run the same kernels. The second one has places for some draws of the first:
the same kernels round their answers alike, so that whatever changes comes from the other entries. Elsewhere batches are
as large as allowed, and what is asked again is asked apart.
"""

from dataclasses import dataclass

from segcertify.sampling.cross_talk import ENTRIES

SPARE = 1 / 8
"""Draws that only fill up a last batch may be this share of those that are left, or as many as would be asked again in
a batch of another size."""


@dataclass(frozen=True)
class Places:
    """The places of a batch: of draws that are new, that are asked again, and that only fill it up."""

    new: int
    again: int = 0
    spare: int = 0
    others_follow: bool = False
    """Whether a batch of this size follows, which has places for draws of this one."""

    @property
    def size(self) -> int:
        """All of them."""
        return self.new + self.again + self.spare


class Partition:
    """The batches of a run whose sizes are even; with ``again`` the second has places for draws of the first.

    With ``or_one`` a single batch does without, if it holds all draws: two have more to begin and to end.
    """

    def __init__(self, *, again: bool = True, or_one: bool = False) -> None:
        self._again, self._or_one, self.size = again, or_one, 0

    def next(self, left: int, most: int, owed: int) -> Places:
        """The next batch, of at most so many places, where ``owed`` draws of an earlier one are to be asked again.

        ``left`` is how many draws are left until batches have to end.
        """
        if not self._again or (self._or_one and not self.size and left <= most):
            return Places(evenly(left, most)[0])
        if not 0 < self.size <= most or 2 * self.size < min(left, most):  # none yet, too large or much too small
            size = _least_waste(left + ENTRIES, most)
            new = min(size, left)
            self.size = size if new == size else 0
            return Places(new, others_follow=left > new == size > 1)
        total = left + owed
        spare = -total % self.size
        if owed < self.size and spare <= max(SPARE * total, ENTRIES):
            new = min(left, self.size - owed)
            return Places(new, owed, self.size - owed - new)
        return Places(evenly(left, most)[0])


def evenly(count: int, most: int, *, at_least: int = 1) -> list[int]:
    """The sizes of as few batches as possible for so many draws, about equally large, the largest first.

    >>> evenly(110, 40), evenly(7, 10, at_least=2)
    ([37, 37, 36], [4, 3])
    """
    batches = max(-(-count // most), at_least)
    return [(count + place) // batches for place in reversed(range(batches))]


def _least_waste(count: int, most: int) -> int:
    """The size of two batches or more that leaves the fewest places over, and of such sizes the largest.

    Up to an eighth more batches than necessary are made for that.

    >>> _least_waste(116, 170), _least_waste(116, 10)
    (58, 9)
    """
    fewest = max(-(-count // most), 2)
    sizes = [-(-count // batches) for batches in range(fewest, fewest + fewest // 8 + 1)]
    return min(sizes, key=lambda size: -count % size)
