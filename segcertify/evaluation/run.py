"""A model over a data set: every scene, every setting, resumable.

Each sigma is sampled once, at its largest n; smaller n are prefixes of the same
draws. Each (sigma, n, tau, correction) is a claim of its own: picking the best
after looking voids alpha. Over M scenes the claims of one setting hold together
with probability at least 1 - M alpha.
"""

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace

import torch

from segcertify.certificate import Certificate
from segcertify.certification import certify_votes
from segcertify.data import DataSet, Scene
from segcertify.engines.engine import Engine, as_engine
from segcertify.engines.pool import Pool
from segcertify.errors import InputError, ModelError, require_integer, require_probability
from segcertify.evaluation.attacked import AttackedScenes
from segcertify.evaluation.drawing import CheckAttack, Drawing, Drawn, Throughput, torch_threads
from segcertify.evaluation.looks import look_settings
from segcertify.evaluation.pictures import ScenePictures
from segcertify.evaluation.scenes import (
    broken_scenes,
    draws_used,
    labels_digest,
    labels_record,
    metric_record,
    radius_record,
    require_readable,
    scenes_digest,
    skipped_record,
)
from segcertify.evaluation.sets import CertifiedSets, set_methods
from segcertify.figures.palette import ColoursOf
from segcertify.metrics.names import parse as parse_metric
from segcertify.metrics.planning import probability_needed
from segcertify.models import card_of, with_precision
from segcertify.noise import Noise, NoiseName, common_name, identified, largest_radius, parse, require_noise
from segcertify.numerals import counted, exact
from segcertify.progress import progress_bar
from segcertify.records import AttackSettings, Configuration, MetricSettings, Record, RunFolder, Setting, distinct
from segcertify.records.settings import require_cap
from segcertify.report.run import Run
from segcertify.sampling.identity import identity
from segcertify.sampling.inputs import working_device
from segcertify.sampling.seeds import seed_of_run
from segcertify.sampling.segmenter import Segmenter, for_sampling
from segcertify.stats.correction import K_FWER, procedures
from segcertify.storage.lock import locked
from segcertify.votes import Votes


def evaluate(
    model: Segmenter, data: DataSet, *, out: str | os.PathLike[str],
    settings: Sequence[Setting | tuple[float, int, float]],
    noise: str | NoiseName | Callable[[float], Noise] = "gaussian", corrections: Sequence[str] = ("holm",),
    k: int | None = None, b: int | None = None, n0: int = 10, alpha: float = 0.001, seed: int | None = None,
    batch_size: int | None = None, device: str | torch.device | None = None, name: str = "", precision: str = "fp32",
    attack: AttackSettings | None = None, metrics: MetricSettings | None = None, sets: bool = False,
    looks: int | Sequence[int] = (), until: float | None = None, cap: float | None = None, save_votes: bool = False,
    save_pictures: bool = False, colours: ColoursOf = "own", skip_broken: bool = False,
    engine: str | Engine = "local", workers: int | None = None, address: str | None = None,
    progress: bool | None = None,
) -> Run:  # fmt: skip
    """Certify every scene of a data set under every setting. Returns the run, whose records lie in ``out``.

    ``settings`` are (sigma, n, tau). With none, only the base model is evaluated.
    ``noise`` is a name such as ``"rotation:z"`` (`segcertify.noise.names`), or a
    class or function that makes a noise of a sigma: the run is identified by the
    noises that it makes. Gaussian noise on clouds leaves their normals alone. ``k``
    (or an error budget ``b``) is for the correction "k-fwer". A model with a method
    ``for_category`` gets each scene's category.

    The same arguments resume a run; other arguments are refused, and so is a folder in
    which another process is at work (`segcertify.storage.lock`). Without a seed a new
    run draws one from the operating system, and a resumed run takes the recorded one:
    a claim is about scenes and a model that were fixed before the seed. An n that can
    certify nothing is recorded as full abstention. ``precision`` may be ``"bf16"`` or
    ``"fp16"`` (`segcertify.models.with_precision`). ``attack`` also attacks every scene,
    for upper bounds beside the certified lower ones. ``metrics`` also bounds metrics of
    most noisy runs, from the draws that the votes count; agreement is with the model's
    labels of the clean input. ``sets`` also certifies which labels each component can
    get (`segcertify.certify_sets`), at an alpha of its own, by the counts of all classes
    in the same draws; where the classes have a tree, beside two baselines of nested groups.
    ``save_pictures`` keeps each certificate's picture and its interactive page in ``out/certified``. Thumbnails for the
    run's page are always kept (``out/thumbnails``). ``colours`` of classes are our own, which colour-blind readers can
    tell apart, or with ``"data"`` those of the data set.

    ``looks`` are tests within the n draws, each at alpha / L: their times, or how many. The times are fixed before
    sampling and are part of the run's settings. A scene's draws end at the first look at which all claims of its sigma
    can gain nothing more, or are certified at the share ``until`` of its components; records hold the draws used and
    saved. Looks take holm and bonferroni, one n for each sigma, and no metrics.
    ``cap`` is a probability in (1/2, 1), such as the largest tau: the curve over all radii then ends at its radius, and
    in return has Holm's levels (`segcertify.radius_map`).

    All scenes are read once before the work. One that cannot be read, or has no ground truth at all where a metric
    is compared with it, is refused then, or with ``skip_broken`` recorded as skipped, which the report says; a resumed
    run keeps to that.

    ``engine`` says where draws are made (`segcertify.engines.Engine`): "local" is this process, or so many ``workers``
    of this machine; "ray" is a Ray cluster, perhaps at an ``address``. A run may be resumed on another engine, and its
    votes are the same: the number of threads of each process that draws and ``batch_size`` are recorded, and kept
    unless another ``batch_size`` is given.
    """
    claims, chosen = distinct(settings), procedures(corrections, k=k, b=b)
    drawn: Callable[[float], Noise] = parse(noise) if isinstance(noise, str) else noise
    made = {setting.sigma: require_noise(drawn(setting.sigma)) for setting in claims}
    noises = {sigma: data.domain.noise(each) for sigma, each in made.items()}
    wanted = [parse_metric(each, data.classes) for each in (metrics.names if metrics else ())]
    for sigma in noises if wanted else ():  # refuses a noise without a proof
        probability_needed(noises[sigma], 0.0, share=metrics.share if metrics else 0.5)
    chosen_engine, folder = as_engine(engine, workers, address), RunFolder(out, data.ids)
    with locked(folder.path), _workers(chosen_engine, folder, model, precision, device) as pool:
        device = working_device(device, model) if pool is None else torch.device(pool.device)
        batch_size = folder.batch_size if batch_size is None else require_integer("batch_size", batch_size)
        past = folder.past()
        compared = any(metric.needs_target for metric in wanted)
        broken = broken_scenes(data, range(len(past.ids), len(data)), progress=progress, compared=compared)
        readable = require_readable(data, past.skipped | broken, skip=skip_broken or not broken)
        _require_fit(model, readable)
        chosen_seed = seed_of_run(seed, folder.seed)
        configuration = Configuration(
            model=name or type(model).__name__,
            identity=identity(for_sampling(model)) if pool is None else pool.identity,
            data=data.name,
            classes=data.classes,
            categories=dict(data.categories) if data.domain.metric == "shape_iou" else {},
            scenes=scenes_digest(data, readable),
            settings=claims,
            corrections=tuple(correction.name for correction in chosen),
            n0=require_integer("n0", n0),
            alpha=require_probability("alpha", alpha),
            seed=chosen_seed.value,
            seed_given=chosen_seed.given,
            noise=common_name(made or {1.0: require_noise(drawn(1.0))}),  # attacks alone need a noise of any scale
            precision=precision,
            device=device.type,
            k=next((correction.k for correction in chosen if correction.name == K_FWER), None),
            noises={exact(sigma): identified(each) for sigma, each in noises.items()},
            preprocessing=None if data.preprocessing is None else dict(data.preprocessing),
            metrics=metrics,
            sets=set_methods(data, wanted=sets),
            looks=look_settings(
                looks,
                until,
                claims,
                chosen,
                n0=n0,
                alpha=alpha,
                N=readable[0].target.size,
                metrics=metrics is not None,
                counts=sets,
            ),
            cap=None if cap is None else require_cap(cap),
            threads=folder.threads or chosen_engine.threads,
            batch_size=batch_size,
        )
        model, attacked = with_precision(model, precision), None
        if attack is not None:
            threat = next(iter(noises.values()), None) or data.domain.noise(drawn(1.0))
            certified = [noises[claim.sigma].radius(claim.tau) for claim in claims]
            attack = attack.with_radii(certified, largest=largest_radius(threat))
            attacked = AttackedScenes(attack, threat, noises, len(data.classes), configuration.seed, batch_size, device)
            if pool is None:
                attacked.check(model, readable[0])
            else:
                pool.submit(CheckAttack(attacked, readable[0])).result()
            configuration = replace(configuration, attack=attack)
        drawing = Drawing(
            model, data, configuration, folder, noises, wanted, attacked, batch_size, device, pool
        )  # fmt: skip
        known = bool(configuration.identity["weights"])
        if not folder.claimed or not (known or len(past.ids) == len(data)):
            labels = drawing.base(readable[0])  # a model that refuses the scenes leaves no folder
            configuration = replace(configuration, answers=None if known else labels_digest(labels))
        folder.claim(configuration)
        pictures = ScenePictures(folder, data, save_pictures, colours)
        _Evaluation(data, configuration, folder, drawing, pictures, save_votes, skip_broken, broken).run(progress)
        return Run.load(out)


@contextmanager
def _workers(
    engine: Engine, folder: RunFolder, model: Segmenter, precision: str, device: str | torch.device | None
) -> Iterator[Pool | None]:
    """The engine's workers, None if this process draws; each has as many threads as the run has recorded."""
    if engine.in_process:
        with torch_threads(folder.threads or engine.threads):
            yield None
    else:
        with engine.started(model, precision=precision, device=device, threads=folder.threads) as pool:
            yield pool


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """The work of one evaluation, in its folder."""

    data: DataSet
    configuration: Configuration
    folder: RunFolder
    drawing: Drawing
    pictures: ScenePictures
    save_votes: bool
    skip_broken: bool
    broken: Mapping[str, str]

    def run(self, progress: bool | None) -> None:
        """Append the records of all scenes that are not done yet."""
        data, largest = self.data, self.configuration.largest_n
        file = self.folder.record_file()
        done = len(file.ids)
        if file.ids != list(data.ids[:done]):
            raise InputError(f"the records in {self.folder.path} are of other scenes: use another folder")
        attacked, speed = self.drawing.attacked, Throughput(self.drawing.workers)
        draws = sum(self.configuration.n0 + n for n in largest.values()) + (attacked.work if attacked else 0)
        words = counted(len(data), "scene")
        with progress_bar(len(data) * draws, words, news=speed, show=progress) as advance:
            advance(done * draws)
            self.pictures.legend()
            self._delete_checkpoints(data.ids[:done])  # a kill may come between a scene's records and this
            drawn = self.drawing.scenes(range(done, len(data)), self.broken, speed.counting(advance))
            with closing(drawn):  # nobody works in the folder after this
                for index, each in enumerate(drawn, start=done):
                    file.append(self._records(index, each))
                    self._delete_checkpoints([data.ids[index]])

    def _records(self, index: int, drawn: Drawn) -> list[Record]:
        """All records of one scene, or the one that says why it was skipped."""
        name = self.data.ids[index]
        try:
            scene = None if name in self.broken else drawn.scene()
        except InputError as error:  # it could be read before
            if not self.skip_broken:
                raise InputError(f"{error} (after {counted(index, 'scene')}, whose records are kept)") from None
            return [skipped_record(name, str(error))]
        if scene is None:
            return [skipped_record(name, self.broken[name])]
        try:
            return list(self._scene(scene, drawn))
        except ModelError as error:
            raise ModelError(f"scene {name!r}, after {counted(index, 'scene')}: {error}") from error

    def _scene(self, scene: Scene, drawn: Drawn) -> Iterator[Record]:
        """All records of one scene."""
        prediction, base = drawn.base(scene)
        yield base
        self.pictures.of_base(scene, prediction)
        yield from drawn.attacks(scene, base)
        for sigma in self.configuration.sigmas:
            voted = drawn.votes(scene, sigma, prediction)
            votes = voted.votes
            yield radius_record(scene, votes, sigma=sigma, capped=self.configuration.cap is not None)
            for metric, row in zip(self.drawing.metrics, voted.values, strict=True):
                yield metric_record(scene, metric.text, row, sigma=sigma)
            for setting in (setting for setting in self.configuration.settings if setting.sigma == sigma):
                for certificate, record in self._certified(scene, votes, setting, seconds=voted.seconds):
                    yield record
                    counted_votes = votes if votes.looks else votes.at(setting.n)
                    self.pictures.of_certificate(scene, setting, certificate, counted_votes, prediction=prediction)
                if self.configuration.sets:
                    yield from self._sets(scene, votes, setting)
            if self.save_votes:
                votes.save(self.folder.votes(scene.id, sigma))

    def _sets(self, scene: Scene, votes: Votes, setting: Setting) -> Iterator[Record]:
        """The records of a scene's sets, and their picture."""
        made = CertifiedSets(self.configuration.sets, self.data.classes, self.configuration.alpha)
        for certificate, record in made.records(scene, votes.at(setting.n), setting):
            yield record
            if certificate is not None:
                self.pictures.of_sets(scene, setting, certificate)

    def _certified(
        self, scene: Scene, votes: Votes, setting: Setting, *, seconds: float
    ) -> Iterator[tuple[Certificate, Record]]:
        """A certificate and its record for each correction. Sampling time is this n's share of its sigma's draws."""
        share = (votes.n0 + setting.n) / (votes.n0 + votes.planned)
        for correction in self.configuration.corrections:
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*can certify nothing.*")  # recorded as full abstention
                certificate = certify_votes(
                    votes if votes.looks else votes.at(setting.n),
                    tau=setting.tau,
                    alpha=self.configuration.alpha,
                    correction=correction,
                    k=self.configuration.k if correction == K_FWER else None,
                )
            record = labels_record(
                scene, "certified", certificate.labels, testing_seconds=time.perf_counter() - start,
                sampling_seconds=seconds * share, classes=len(self.data.classes), **asdict(setting),
                correction=correction, radius=certificate.radius, N=certificate.N,
                abstained=int(certificate.abstained.sum()), input_radius=certificate.file_radius,
                **draws_used(votes),
            )  # fmt: skip
            yield certificate, record

    def _delete_checkpoints(self, scene_ids: Sequence[str]) -> None:
        """Of scenes whose records are written."""
        for scene_id in scene_ids:
            for sigma in self.configuration.sigmas:
                self.folder.checkpoint(scene_id, sigma).unlink(missing_ok=True)


def _require_fit(model: Segmenter, data: DataSet) -> None:
    """Refuse a model whose card names other classes than the data set, and scenes of another domain or id than its."""
    if len(data) and (found := data[0].domain) is not data.domain:
        raise InputError(
            f"scenes of {data.name} are of the domain {found.name}, but the data set says {data.domain.name}, which "
            f"decides where noise goes: set domain = {found.name.upper()} (segcertify.data.domain) in its class"
        )
    if len(data) and (called := data[0].id) != data.ids[0]:  # files and records go by the scene's own id
        raise InputError(
            f"{data.name} lists its first scene as {data.ids[0]!r}, but the scene says {called!r}: evaluate each data "
            "set of a mixture by itself (mixtures are to train on), or give scenes the ids that the set lists"
        )
    card = card_of(model)
    if card is not None and card.classes != data.classes:
        raise InputError(
            f"the model labels {', '.join(card.classes)}, but {data.name} has the classes {', '.join(data.classes)}: "
            "evaluate it on scenes with its classes, in its order"
        )
