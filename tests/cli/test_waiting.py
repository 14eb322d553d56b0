"""On a busy machine threads sleep while they wait, on any other they spin, and the user's word counts."""

import os
import subprocess
import sys

import pytest

from segcertify.cli.waiting import sleep_where_busy


@pytest.mark.parametrize(
    ("load", "given", "expected"), [(3.1, None, "passive"), (2.9, None, None), (9.0, "active", "active")]
)
def test_threads_sleep_only_where_more_programs_run_than_processors(
    monkeypatch: pytest.MonkeyPatch, load: float, given: str | None, expected: str | None
) -> None:
    environment = {} if given is None else {"OMP_WAIT_POLICY": given}
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    sleep_where_busy()
    assert environment.get("OMP_WAIT_POLICY") == expected


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
