"""No kernel is trusted before it gave what its twin gives: once in a process for each device and kind of input."""

import warnings
from collections.abc import Callable, Hashable

from segcertify.sampling.batch_size import out_of_memory
from segcertify.sampling.kernels.fused import interpreted

_KNOWN: dict[tuple[str, Hashable], bool] = {}


def trusted(name: str, case: Hashable, differs: Callable[[], str]) -> bool:
    """Whether a kernel may be used: ``differs`` runs it on a small input and says what differs from its twin's answer.

    A kernel that differs, or fails to compile or to run, is left out with one warning that names it. In Triton's
    interpreter, which is slow, the tests compare them.
    """
    if interpreted():
        return True
    if (name, case) not in _KNOWN:
        try:
            found = differs()
        except Exception as error:
            if out_of_memory(error):
                raise
            found = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
        _KNOWN[name, case] = not found
        if found:
            warnings.warn(
                f"the fused kernel {name} is not used for {case}: {found}. Plain torch runs instead, which is slower; "
                "please report this with your versions of torch and Triton",
                RuntimeWarning,
                stacklevel=2,
            )
    return _KNOWN[name, case]
