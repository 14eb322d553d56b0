"""Sets of labels in an evaluation: by exclusion, and by baselines where the classes have a tree."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from segcertify.arrays import IntArray
from segcertify.data import DataSet, Scene
from segcertify.evaluation.scenes import sets_record
from segcertify.records import SETS, Record, Setting
from segcertify.sets.certificate import SetCertificate
from segcertify.sets.class_trees import tree_levels, tree_of
from segcertify.sets.exclusion import certify_sets
from segcertify.sets.groups import Groups, certify_by_gap, certify_groups
from segcertify.votes import Votes


def set_methods(data: DataSet, *, wanted: bool) -> tuple[str, ...]:
    """How the sets of a data set are certified: baselines need groups of its classes."""
    return SETS[: len(SETS) if tree_of(data.classes) else 1] if wanted else ()


@dataclass(frozen=True, eq=False)
class CertifiedSets:
    """The sets of a scene at one setting, each method a claim of its own at alpha."""

    methods: Sequence[str]
    classes: Sequence[str]
    alpha: float

    def records(self, scene: Scene, votes: Votes, setting: Setting) -> Iterator[tuple[SetCertificate | None, Record]]:
        """A record for each method; beside that of exclusion, the certificate."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*can certify nothing.*")  # recorded as full sets
            certificate = certify_sets(votes, tau=setting.tau, alpha=self.alpha)
        levels = tree_levels(tree_of(self.classes), self.classes)
        for method in self.methods:
            found = certificate if method == SETS[0] else self._groups(method, votes, levels, tau=setting.tau)
            record = sets_record(
                scene, found, classes=len(self.classes), **asdict(setting), method=method, N=certificate.N,
                radius=certificate.radius, input_radius=certificate.file_radius,
            )  # fmt: skip
            yield (certificate if method == SETS[0] else None), record

    def _groups(self, method: str, votes: Votes, levels: Sequence[IntArray], *, tau: float) -> Groups:
        certify = certify_groups if method == SETS[1] else certify_by_gap
        return certify(votes, levels, tau=tau, alpha=self.alpha)
