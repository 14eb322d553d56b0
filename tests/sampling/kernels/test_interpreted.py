"""The kernels themselves, in Triton's interpreter: in a process of its own, as Triton must be imported for it."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from segcertify.sampling.kernels.fused import has_triton, interpreted

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed: pip install triton")


@needs_triton
@pytest.mark.skipif(interpreted(), reason="this is the interpreter")
def test_kernels_in_the_interpreter():
    assert has_triton()
    files = [str(Path(__file__).with_name(f"test_{name}.py")) for name in ("philox", "scores")]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", *files]
    root = str(Path(__file__).parents[3])
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(filter(None, [root, *sys.path]))}
    done = subprocess.run(
        command, env=environment, cwd=root, capture_output=True, text=True, check=False, timeout=1200
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout or "100%" in done.stdout
