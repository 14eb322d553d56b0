"""What a model said to a batch of draws: counted where it lies, by the fused kernels, or through its label maps."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from segcertify.errors import InputError
from segcertify.sampling.cross_talk import Answers, chosen
from segcertify.sampling.kernels import scores
from segcertify.sampling.kernels.fused import fused
from segcertify.sampling.segmenter import NOT_FINITE, coarse_logits, to_labels


@dataclass(frozen=True, eq=False)
class Outputs:
    """The noisy inputs of a batch, and a model's output for them: logits, labels, or logarithms of scores.

    Where a kernel takes the scores nothing waits for the device, and scores that are not finite raise the flag ``bad``
    on it: whoever uses counts calls `require_finite` before. Elsewhere labels are checked as they are made.
    """

    batch: torch.Tensor
    output: torch.Tensor
    bad: torch.Tensor
    logs_at: tuple[int, int] | None = None
    """The size of the images, if the output is logarithms of the scores of smaller ones."""

    @cached_property
    def scores(self) -> scores.Scores | None:
        """The output as the kernels take it; None if they do not."""
        if self.output.ndim != 4 or self.batch.ndim != 4 or not fused(self.output):
            return None
        if not coarse_logits(self.output, self.batch):
            return None
        size = self.logs_at or (self.batch.shape[2], self.batch.shape[3])
        found = scores.Scores(self.output, size, logs=self.logs_at is not None)
        return found if found.fused else None

    @cached_property
    def labels(self) -> torch.Tensor:
        """Label maps (B, *components), checked, in memory of their own."""
        labels = self._labels
        require_finite(self.bad)
        return labels

    @cached_property
    def _labels(self) -> torch.Tensor:
        if self.scores is not None:
            return scores.label_maps(self.scores, self.bad)
        if self.logs_at is not None:
            return scores.labels_twin(scores.Scores(self.output, self.logs_at, logs=True), self.bad)
        return to_labels(self.output, self.batch)

    @property
    def components(self) -> tuple[int, ...]:
        """The shape of a label map."""
        return tuple(self._labels.shape[1:]) if self.scores is None else self.scores.size

    def kept(self) -> "Outputs":
        """The same where the model may be called again: its output may lie in memory that it uses again."""
        return self if self.scores is None else Outputs(self.batch, self.output.clone(), self.bad, self.logs_at)

    def part(self, entries: slice) -> "Outputs":
        """Those of some entries, of which nothing is computed anew."""
        found = Outputs(self.batch[entries], self.output[entries], self.bad, self.logs_at)
        if self.scores is None:
            found.__dict__["_labels"] = self._labels[entries]
        return found

    def answers(self) -> Answers:
        """The answers, to be compared: scores that are not finite have raised the flag, no more."""
        if self.logs_at is None:
            return Answers(self.batch, self.output, self._labels)
        return Answers(self.batch, self.output.nan_to_num(), self._labels)

    def at(self, entries: Sequence[int]) -> Answers:
        """The answers to some entries, in memory of their own."""
        if self.scores is None:
            return self.answers().at(entries)
        batch, output = (chosen(each, entries) for each in (self.batch, self.output))
        return Outputs(batch, output, self.bad, self.logs_at).answers()

    def add_agreement(self, candidate: torch.Tensor, agree: torch.Tensor) -> None:
        """Add to ``agree`` how many entries give each component the candidate's label."""
        if self.scores is None:
            agree += (self._labels == candidate).sum(0, dtype=agree.dtype)
        else:
            scores.add_agreement(self.scores, candidate, agree, self.bad)

    def with_class_counts(self, counts: torch.Tensor, classes: int | None) -> torch.Tensor:
        """The counts (classes, *components) with those of all entries added: in place, unless there are more classes.

        A label that is not below ``classes`` is refused; where the number is not known, counts of more are added.
        """
        most = int(self._labels.max()) + 1 if self.scores is None else self.output.shape[1]
        if classes and most > classes:
            raise InputError(f"the model gave the label {most - 1}, but it has classes={classes}: say how many")
        if most > len(counts):
            counts = torch.cat([counts, counts.new_zeros((most - len(counts), *counts.shape[1:]))])
        if self.scores is None:
            counts.scatter_add_(0, self._labels, counts.new_ones(()).expand(self._labels.shape))
        else:
            scores.add_class_counts(self.scores, counts, self.bad)
        return counts


def require_finite(bad: torch.Tensor) -> None:
    """Refuse all that was counted since the flag was lowered, if scores were not finite: waits for the device."""
    if int(bad):
        raise InputError(NOT_FINITE)
