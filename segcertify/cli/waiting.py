"""How threads wait for one another on a machine that other programs use too."""

import os

BUSY = 1.5
"""A machine is busy if more programs than this want to run on each of its processors."""


SPINS = 20_000
"""How often a thread of a process looks before it sleeps.

GNU's OpenMP, with which torch comes, looks 300,000 times: after each pass of a network a thread keeps a processor busy
that the threads that draw the next noise need (``benchmarks/cpu.py`` with and without it shows how much).
"""


def sleep_soon() -> None:
    """Let the threads of this process sleep soon while they wait, and at once if the machine is busy.

    It is to be called before torch loads. Threads that have no processors of their own spin in place of the thread that
    they wait for: two threads of a network on two cores, beside 9 programs that wanted to run, took 6 times the
    processor's time of one thread, and 6 times as long. Results are the same. What the user has set stays.
    """
    if "OMP_WAIT_POLICY" in os.environ:
        return
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > BUSY * (os.cpu_count() or 1):
        os.environ["OMP_WAIT_POLICY"] = "passive"
    else:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
