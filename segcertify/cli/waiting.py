"""How threads wait for one another on a machine that other programs use too."""

import os

BUSY = 1.5
"""A machine is busy if more programs than this want to run on each of its processors."""


def sleep_where_busy() -> None:
    """Let the threads of this process sleep while they wait, if the machine is busy; to be called before torch loads.

    They spin by default, which is a little faster where they have processors of their own. Where they have none they
    spin in place of the thread that they wait for: two threads of a network on two cores, beside 9 programs that
    wanted to run, took 6 times the processor's time of one thread, and 6 times as long. Results are the same. What
    the user has set stays.
    """
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > BUSY * (os.cpu_count() or 1):
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
