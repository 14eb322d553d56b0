"""Training: a recipe's steps over a data set, on one device or several, resumable."""

import copy
import os
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import nn

from segcertify.data import DataSet
from segcertify.data.augmentation import Augmentation
from segcertify.errors import InputError
from segcertify.models.card import save_model
from segcertify.models.wrappers.wrapper import unwrapped
from segcertify.progress import progress_bar
from segcertify.storage.atomic import write_text
from segcertify.storage.interruption import interruption
from segcertify.storage.lock import locked
from segcertify.storage.reading import is_there
from segcertify.training import state
from segcertify.training.card import training_card
from segcertify.training.distributed import Processes, join_processes
from segcertify.training.fit import require_fit
from segcertify.training.folder import MODEL, STATE, claim
from segcertify.training.log import TrainingLog, draw_losses, require_tensorboard
from segcertify.training.objectives import OwnLabels, PixelLoss, objective
from segcertify.training.optimisation import moving_average, optimiser, rate, schedule, set_norm_momentum
from segcertify.training.pool import Batch, Pool, batch_order, class_weights
from segcertify.training.recipe import DENOISING, Intervals, Recipe
from segcertify.training.step import Step
from segcertify.training.streaming import StreamedPool, read_pool, require_memory
from segcertify.training.teacher import load_teacher, require_teacher
from segcertify.training.validation import validate, validate_denoiser

StopRequested = Callable[[], BaseException | None]
"""What to raise if a signal requested a stop, else None."""


def train(
    model: nn.Module, data: DataSet, recipe: Recipe, *, out: str | os.PathLike[str], spec: str = "", start: str = "",
    validation: DataSet | None = None, licence: str = "not stated", half: bool = False,
    device: str | torch.device | None = None, graphed: bool | None = None, intervals: Intervals | None = None,
    tensorboard: bool = False, memory: float | None = None, trust_code: bool = False, progress: bool | None = None,
) -> Path:  # fmt: skip
    """Train a model, and write it with its card to ``out/model.safetensors``.

    The same call again resumes a run that was stopped, and ends with the same weights (on a CPU); a finished run is
    left as it is. All randomness of step j depends on (seed, j) alone, and the global seeds stay as they were.
    ``spec`` and ``start`` say, for the card, what the model was made from and which weights it began with. A recipe's
    teacher is loaded from its spec, with ``trust_code`` as in `models.load`, and the run belongs to its weights.
    ``half`` writes the weights in half precision. ``graphed`` replays steps as a CUDA graph; by default that is
    done on a single GPU, unless the model has ``graphable = False``. A data set of more than ``memory`` GB is streamed
    from disk, with the same result (on a CPU bit by bit); by default one that takes more than half of what is free.
    """
    out, intervals = Path(out), intervals or Intervals()
    recipe = recipe.for_data(scenes=len(data), classes=len(data.classes))
    memory = None if memory is None else require_memory(memory)
    settings = {"model": spec, "start": start, "data": data.name, "scenes": len(data), **recipe.to_plain()}
    settings |= {"validation": "" if validation is None else validation.name, "licence": licence, "half": half}
    teacher, taught_by = load_teacher(recipe.teacher, trust_code=trust_code) if recipe.teacher else (None, "")
    settings |= {"teacher": taught_by}
    if recipe.labels == "own" and not start:
        raise InputError("own labels are those of the model that training starts from: give start, or labels truth")
    if tensorboard:
        require_tensorboard()
    with join_processes(device) as processes, locked(out) if processes.first else nullcontext():
        processes.local_batch_size(recipe.batch_size)
        require_fit(model.to(processes.device), data, validation, recipe)
        if teacher is not None:
            require_teacher(teacher.to(processes.device), data, crop=recipe.crop)
        card = partial(training_card, model, data, recipe, spec=spec, start=start, teacher=taught_by, licence=licence)
        card(scores={})  # raises now what it would raise at the end
        if claim(out, settings):
            if processes.first:
                (out / STATE).unlink(missing_ok=True)  # of a run that was killed between the model and this
                draw_losses(out)
            return out / MODEL
        shown = progress if processes.first else False
        read = partial(read_pool, device=processes.device, memory=memory, progress=shown)
        own = copy.deepcopy(model).eval().requires_grad_(False) if recipe.labels == "own" else None
        run = _Run(model, recipe, read(data), out, processes, graphed, shown, teacher, own)
        others = None if validation is None else read(validation)
        cuda = [processes.device] if processes.device.type == "cuda" else []
        alone = processes.world_size == 1  # of several processes, one that stops would leave the others waiting
        with interruption() if alone else nullcontext(lambda: None) as stop_requested:
            with torch.random.fork_rng(devices=cuda):
                log = TrainingLog(out, start=run.done, tensorboard=tensorboard) if processes.first else None
                scores = run.finish(log, others, intervals=intervals, stop_requested=stop_requested)
            if processes.first:
                write_text(out / "model.md", card(scores=scores).markdown())
                save_model(out / MODEL, unwrapped(run.result), card(scores=scores), half=half)
                (out / STATE).unlink(missing_ok=True)
        processes.barrier()
    return out / MODEL


@dataclass(eq=False)
class _Run:
    """A training run in its folder, new or resumed."""

    model: nn.Module
    recipe: Recipe
    pool: Pool
    out: Path
    processes: Processes
    graphed: bool | None
    progress: bool | None
    teacher: nn.Module | None = None
    labeller: nn.Module | None = None
    done: int = 0

    def __post_init__(self) -> None:
        recipe, processes = self.recipe, self.processes
        self.batch_size = processes.local_batch_size(recipe.batch_size)
        self.augmentation = Augmentation(
            recipe.crop, recipe.rescale, recipe.rotate, recipe.flip, recipe.colour, recipe.paste, recipe.shift
        )
        self.model = self.model.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        self.average = moving_average(self.model, recipe.ema) if recipe.ema else None
        self.modules = {"model": self.model} | ({} if self.average is None else {"average": self.average.module})
        self.result = self.modules.get("average", self.model)
        self.optimiser = optimiser(self.model, recipe)
        if is_there(self.out / STATE):
            self.done = state.load(self.out / STATE, modules=self.modules, optimiser=self.optimiser)
        if self.average is not None:
            self.average.n_averaged += self.done
        self.schedule = schedule(self.optimiser, recipe, done=self.done)
        if self.graphed is None:
            alone = processes.device.type == "cuda" and processes.world_size == 1
            parts = [*self.model.modules(), *(() if self.teacher is None else self.teacher.modules())]
            self.graphed = alone and all(getattr(each, "graphable", True) for each in parts)
        loss = PixelLoss(class_weights(self.pool, recipe, processes.device), recipe.ohem)
        minimised = objective(recipe, loss, processes.device, noised=self.pool.noised, teacher=self.teacher)
        if self.labeller is not None:
            minimised = OwnLabels(minimised, self.labeller)
        self.step = Step(processes.broadcast(self.model), minimised, recipe, graphed=self.graphed)
        self.sums: dict[str, torch.Tensor] = {}
        self.row: dict[str, float] = {}
        self.scores: dict[str, float] = {}

    def finish(
        self, log: TrainingLog | None, validation: Pool | None, *, intervals: Intervals, stop_requested: StopRequested
    ) -> dict[str, float]:
        """Take all remaining steps; returns the scores of the last validation.

        If a stop is requested, the run ends its step, logs it, saves its state and raises; the last step is
        finished as always.
        """
        steps, own = self.recipe.iterations, {"rank": self.processes.rank, "world_size": self.processes.world_size}
        order = batch_order(len(self.pool), self.batch_size, seed=self.recipe.seed, start=self.done, **own)
        ahead = self.pool.batches(islice(order, steps - self.done))
        news = lambda: f"loss {self.row['loss']:.3g}" if self.row else ""  # noqa: E731
        streamed = ", data from disk" if isinstance(self.pool, StreamedPool) else ""
        bar = progress_bar(steps, f"training {self.out.name}{streamed}", news=news, show=self.progress)
        self._restart_means()
        with bar as advance, closing(ahead), nullcontext() if log is None else closing(log):
            advance(self.done)
            while self.done < steps:
                self._update(next(ahead))
                last = self.done == steps
                stop = None if last else stop_requested()
                if self.done % intervals.log == 0 or last or stop:
                    validated = self.done % intervals.validate == 0 or last
                    self._end_row(validation if validated else None)
                    if log is not None:
                        log.add(self.row)
                advance(1)
                if self.processes.first and (self.done % intervals.save == 0 or stop) and not last:
                    state.save(self.out / STATE, step=self.done, modules=self.modules, optimiser=self.optimiser)
                if stop:
                    raise stop
        return self.scores

    def _update(self, batch: Batch) -> None:
        """Take one step of the optimiser on these scenes, and add its losses to the sums."""
        recipe = self.recipe
        if set_norm_momentum(self.model, self.done, recipe):
            self.step.forget()
        _seed(recipe.seed, self.done, self.processes)
        try:
            losses = self.step(*batch.augmented(self.augmentation))
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise InputError(
                f"{self.batch_size} of the batch_size {recipe.batch_size} with crops of {recipe.crop} leaves a batch "
                "norm one value to average: use a larger batch_size or crop"
            ) from None
        self.processes.average_gradients(self.model)
        if recipe.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip)
        self.optimiser.step()
        self.schedule.step()
        if self.average is not None:
            self.average.update_parameters(self.model)
        self.sums = {name: self.sums.get(name, 0) + value for name, value in losses.items()}
        self.done += 1

    def _restart_means(self) -> None:
        """The next row of the log is about the steps from here on."""
        self.sums, self.began, self.logged = {}, time.perf_counter(), self.done

    def _end_row(self, validation: Pool | None) -> None:
        """Set ``row``: the losses' means over the steps since the last row and over all processes, and the scores."""
        recipe, steps, seconds = self.recipe, self.done - self.logged, time.perf_counter() - self.began
        means = {name: float(self.processes.mean(value / steps)) for name, value in self.sums.items()}
        if not np.isfinite(means["loss"]):
            raise InputError(
                f"the loss became {means['loss']} by step {self.done}: lower lr (now {recipe.lr:g}), "
                f"or use precision fp32 (now {recipe.precision})"
            )
        self.row = {"step": float(self.done), "lr": rate(self.done - 1, recipe) * recipe.lr, **means}
        self.row |= {"seconds": seconds, "images per second": steps * recipe.batch_size / seconds}
        if validation is not None:
            measured = validate_denoiser if recipe.objective == DENOISING else validate
            self.scores = measured(self.result, validation, sigma=recipe.drawn[0])
            self.row |= {f"validation {name}": value for name, value in self.scores.items()}
        self._restart_means()


def _seed(seed: int, step: int, processes: Processes) -> None:
    """Seed the CPU and this device for a step of this process; torch.manual_seed would seed other devices too."""
    words = np.random.SeedSequence([seed, step, processes.rank]).generate_state(1, np.uint64)
    number, device = int(words[0] >> np.uint64(1)), processes.device
    torch.default_generator.manual_seed(number)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(number)
