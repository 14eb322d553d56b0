"""Metrics by name, for commands: accuracy, miou, agreement, dice:CLASS, recall:CLASS, area:CLASS, volume:CLASS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from segcertify.arrays import IntArray
from segcertify.errors import InputError, unknown
from segcertify.metrics.map_metrics import MapMetric, agreement, area, dice, miou, overall_accuracy, recall, volume

OF_TARGET: dict[str, Callable[[IntArray], MapMetric]] = {"accuracy": overall_accuracy, "miou": miou}
OF_TARGET_AND_CLASS: dict[str, Callable[[IntArray, int], MapMetric]] = {"dice": dice, "recall": recall}
OF_CLASS: dict[str, Callable[[int], MapMetric]] = {"area": area, "volume": volume}
FORMS = ("agreement", *OF_TARGET, *(f"{name}:CLASS" for name in (*OF_TARGET_AND_CLASS, *OF_CLASS)))
"""How metrics are written."""


@dataclass(frozen=True)
class MetricName:
    """A metric without its target: ``kind``, and the class that it is about, where it is about one.

    >>> parse("dice:cat", ("background", "cat", "dog"))
    MetricName(kind='dice', label=1, text='dice:cat')
    """

    kind: str
    label: int | None
    text: str

    @property
    def needs_target(self) -> bool:
        """Whether it compares with ground truth."""
        return self.kind in (*OF_TARGET, *OF_TARGET_AND_CLASS)

    @property
    def two_sided(self) -> bool:
        """Whether it is bounded on both sides."""
        return self.kind in OF_CLASS

    def made(self, *, target: IntArray | None, shown: IntArray) -> MapMetric:
        """The metric of an input with this ground truth (negative where there is none).

        ``shown`` is the map that agreement is with, fixed before the noise is drawn.
        """
        if self.needs_target and target is None:
            raise InputError(
                f"the metric {self.text} compares with ground truth, but the input has none: give its label map, or "
                "use agreement, area:CLASS or volume:CLASS"
            )
        if self.kind == "agreement":
            return agreement(shown)
        if self.label is None:
            return OF_TARGET[self.kind](target)  # type: ignore[arg-type]
        if self.kind in OF_CLASS:
            return replace(OF_CLASS[self.kind](self.label), name=self.text)
        return replace(OF_TARGET_AND_CLASS[self.kind](target, self.label), name=self.text)  # type: ignore[arg-type]


def parse(text: str, classes: Sequence[str] = ()) -> MetricName:
    """The metric that a text names. ``classes`` are the names of the labels, where they are known."""
    kind, _, which = text.partition(":")
    of_class = kind in OF_TARGET_AND_CLASS or kind in OF_CLASS
    if not of_class and kind != "agreement" and kind not in OF_TARGET:
        raise unknown("metric", text, [form.partition(":")[0] for form in FORMS], forms=FORMS)
    if of_class != bool(which):
        wanted = f"{kind}:CLASS, such as {kind}:{classes[-1] if classes else 1}" if of_class else kind
        raise InputError(f"the metric {text!r} {'needs a class' if of_class else 'has no class'}: write {wanted}")
    return MetricName(kind, _label(which, classes) if which else None, text)


def _label(which: str, classes: Sequence[str]) -> int:
    """A class by its number or its name."""
    if which.isdecimal() and len(which) < 10 and (not classes or int(which) < len(classes)):
        return int(which)
    if which in classes:
        return list(classes).index(which)
    raise unknown(
        "class", which, classes, forms=[*classes] or ["a number such as 1: the model's classes have no names"]
    )
