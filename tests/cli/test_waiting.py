"""On a busy machine threads sleep while they wait, on any other they spin for a moment, and the user's word counts."""

import os
import subprocess
import sys

import pytest

from segcertify.cli.waiting import sleep_soon

POLICY, SPINS = "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"


@pytest.mark.parametrize(
    ("load", "given", "expected"),
    [
        (3.1, {}, {POLICY: "passive"}),
        (2.9, {}, {SPINS: "20000"}),
        (2.9, {SPINS: "7"}, {SPINS: "7"}),
        (9.0, {POLICY: "active"}, {POLICY: "active"}),
        (0.0, {POLICY: "active"}, {POLICY: "active"}),
    ],
)
def test_threads_sleep_at_once_only_where_more_programs_run_than_processors(
    monkeypatch: pytest.MonkeyPatch, load: float, given: dict[str, str], expected: dict[str, str]
) -> None:
    environment = dict(given)
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    sleep_soon()
    assert environment == expected


def test_a_command_says_so_before_torch_is_loaded() -> None:
    code = (
        "import os, sys\n"
        "os.environ.pop('OMP_WAIT_POLICY', None)\n"
        "os.getloadavg = lambda: (1e6, 0.0, 0.0)\n"
        "sys.argv = ['segcertify', '--version']\n"
        "from segcertify.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(os.environ.get('OMP_WAIT_POLICY'), 'torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == "passive False"
