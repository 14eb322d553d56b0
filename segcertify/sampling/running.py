"""Running: a model as it is run, and what is known of it until its weights change."""

from collections.abc import Callable
from typing import Any

import torch

from segcertify.noise import Noise
from segcertify.sampling.draws import Draws
from segcertify.sampling.identity import identity, is_copy, weights_state
from segcertify.sampling.inputs import finite_input, require_finite_input, sent
from segcertify.sampling.probe import Probe, probe
from segcertify.sampling.seeds import Seed
from segcertify.sampling.segmenter import Segmenter, for_sampling, require_ready
from segcertify.sampling.units import warn_of_units
from segcertify.sampling.verification import Experience

Begin = Callable[[Draws], None]
"""What asks a GPU for work that need not wait until the model was looked at: `Draws.begin`."""


class Running:
    """The model, or a faster copy that it gives of itself, probed once for each kind of input."""

    def __init__(self, model: Segmenter, noise: Noise, batch_size: int | None) -> None:
        self._model, self._noise, self._batch_size = model, noise, batch_size
        self._faster, self.described = model, dict[str, Any]()
        """The faster copy, and its `identity`."""
        self._weights: object = None
        self._probes: dict[object, Probe] = {}
        self._experience = Experience()

    def draws(
        self, given: torch.Tensor, device: torch.device, seed: Callable[[], Seed], input_id: str, *,
        begin: Begin | None = None,
    ) -> Draws:  # fmt: skip
        """The draws at one input on a device, after the checks of the input and the model; ``seed`` draws theirs."""
        begun = self._begun(given, device, seed, input_id, begin) if device.type == "cuda" else None
        require_ready(self._model, device)
        self._noise.check(tuple(given.shape))
        if self._weights == (now := weights_state(self._model)) and begun is not None:
            return begun()
        if self._weights != now:
            faster = for_sampling(self._model)
            self.described = identity(faster)
            self._weights, self._faster, self._experience = now, faster, Experience()
            self._probes.clear()
        x = require_finite_input(sent(given, device))
        if _kind(x) not in self._probes:
            warn_of_units(x, self._noise)
            self._probes[_kind(x)] = probe(self._faster, self._noise, x, self._batch_size)
        return self._draws(given, x, seed(), input_id)

    def _begun(
        self, given: torch.Tensor, device: torch.device, seed: Callable[[], Seed], input_id: str, begin: Begin | None
    ) -> Callable[[], Draws] | None:
        """Gives draws of the model as it was at the last call, once it is known to be the same, or says what is wrong.

        A GPU is busy with the first of them while Python looks on. None for inputs of an unknown kind, and for models
        of which no copy is run: a model itself may have been set to learn from what it sees.
        """
        x = sent(given, device)
        if begin is None or _kind(x) not in self._probes or not is_copy(self._faster):
            return None
        require_finite, draws, failed = finite_input(x), self._draws(given, x, seed(), input_id), list[Exception]()
        try:
            begin(draws)
        except Exception as error:  # told once all is checked, in its order
            failed.append(error)

        def found() -> Draws:
            require_finite()
            for error in failed:
                raise error
            return draws

        return found

    def _draws(self, given: torch.Tensor, x: torch.Tensor, seed: Seed, input_id: str) -> Draws:
        """Draws at ``x``, which is what was ``given`` on its device."""
        draws = Draws(
            self._faster, self._noise, x, self._probes[_kind(x)], seed=seed.value, seed_given=seed.given,
            input_id=input_id, given=given, experience=self._experience,
        )  # fmt: skip
        draws.even = self._batch_size is None
        return draws


def _kind(x: torch.Tensor) -> object:
    """What a model is probed anew for."""
    return x.shape, x.dtype, x.device
