"""Mixture: scenes of several data sets as one, some of them several times, to train on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from segcertify.data.dataset import DataSet
from segcertify.data.domain import Domain
from segcertify.data.scene import Scene
from segcertify.errors import InputError, require_integer
from segcertify.preprocessing import Preprocessing
from segcertify.storage import limits


class Share(NamedTuple):
    """A scene of one of the data sets, by its number there."""

    id: str
    data: DataSet
    number: int


@dataclass(frozen=True, eq=False, repr=False)
class Mixture(DataSet):
    """Scenes of data sets that have the same classes; made by `mixture`."""

    items: tuple[Share, ...]

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """As in each of the data sets."""
        return self.items[0].data.domain

    @property
    def categories(self) -> Mapping[str, tuple[int, ...]]:  # type: ignore[override]
        """As in each of the data sets."""
        return self.items[0].data.categories

    @property
    def preprocessing(self) -> Preprocessing | None:
        """As in each of the data sets; where they differ, each scene has its own."""
        first, *others = {id(share.data): share.data.preprocessing for share in self.items}.values()
        return first if all(other == first for other in others) else None

    def __getitem__(self, index: int) -> Scene:
        """Read one scene from its data set."""
        share = self.items[index]
        return share.data[share.number]

    def shape(self, index: int) -> tuple[int, ...]:
        """As its data set says it."""
        share = self.items[index]
        return share.data.shape(share.number)

    def check(self) -> None:
        """Check each of the data sets."""
        for data in dict.fromkeys(share.data for share in self.items):
            data.check()


def mixture(sets: Sequence[DataSet], times: Sequence[int] = ()) -> DataSet:
    """One data set of several, each taken as often as ``times`` says (once by default); a single one stays as it is."""
    if not sets:
        raise InputError("a mixture needs at least one data set")
    counts = [require_integer("times", count) for count in times] or [1] * len(sets)
    if len(counts) != len(sets):
        raise InputError(f"times must say a number for each of the {len(sets)} data sets, but got {len(counts)}")
    if (scenes := sum(len(data) * count for data, count in zip(sets, counts, strict=True))) > limits.SCENES:
        raise InputError(f"a mixture has at most {limits.SCENES:,} scenes, but times={counts} makes {scenes:,}")
    first = sets[0]
    if len(sets) == 1 and counts == [1]:
        return first
    kinds = [(data.classes, data.domain, dict(data.categories)) for data in sets]
    for other, kind in zip(sets, kinds, strict=True):
        if kind != kinds[0]:
            raise InputError(
                f"{first.name} and {other.name} cannot be mixed: their classes, categories or domains differ"
            )
    shares = [*zip(sets, counts, strict=True)]
    items = tuple(
        Share(f"{data.name}/{name}~{copy}", data, index)
        for data, count in shares
        for copy in range(count)
        for index, name in enumerate(data.ids)
    )
    name = " and ".join(data.name if count == 1 else f"{count} times {data.name}" for data, count in shares)
    return Mixture(name, first.classes, first.colours, items)
