"""The version before is timed, not the one in the working folder."""

from pathlib import Path

import cpu
import pytest


@pytest.mark.parametrize("how", [("-c", "import segcertify"), ("-m", "segcertify")])
def test_a_checkout_runs_its_own_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: tuple[str, ...]) -> None:
    package = tmp_path / "before" / "segcertify"
    package.mkdir(parents=True)
    for name in ("__init__", "__main__"):
        (package / f"{name}.py").write_text("open('said', 'w').write(__file__)\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "segcertify").mkdir()
    for name in ("__init__", "__main__"):
        (tmp_path / "segcertify" / f"{name}.py").write_text("")
    run = cpu.in_child(tmp_path / "before", *how)
    assert run["finished"]
    assert Path((tmp_path / "said").read_text()).parent == package
