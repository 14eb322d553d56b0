"""Odd paths, for every reader: loops of links, pipes, folders, devices, no permission, names that cannot be."""

import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import segcertify as sc
from segcertify.data import read_input, read_label
from segcertify.models import saved
from segcertify.models.formats.weights import load_state
from segcertify.records import RunFolder, read_records
from segcertify.report.run import Run
from segcertify.training import read_recipe
from segcertify.training.folder import claim
from segcertify.training.log import read_log
from tests.campaign.findings import Tally
from tests.campaign.guard import SilentError, guarded
from tests.campaign.kinds import WRITTEN
from tests.campaign.stored_files import read_certificate, read_checkpoint, read_state, read_votes

FILES: dict[str, Callable[[Path], object]] = {
    "votes": read_votes,
    "certificate": read_certificate,
    "checkpoint": read_checkpoint,
    "training state": read_state,
    "records": read_records,
    "recipe": read_recipe,
    "log": read_log,
    "image": read_input,
    "label": read_label,
    "npy": lambda path: read_input(path.with_suffix(".npy")),
    "ply": lambda path: read_input(path.with_suffix(".ply")),
    "text": lambda path: read_input(path.with_suffix(".txt")),
    "weights": load_state,
    "any weights": saved.read_weights,
    "trained": lambda path: sc.models.load(f"trained:{path}"),
    "onnx": lambda path: sc.models.load(f"onnx:{path}"),
    "pt2": lambda path: sc.models.load(f"pt2:{path}", trust_code=True),
    "torchscript": lambda path: sc.models.load(f"torchscript:{path}", trust_code=True),
    "hf": lambda path: sc.models.load(f"hf:{path}"),
    "hrnet": lambda path: sc.models.load(f"hrnet:{path}"),
}
"""What reads a file."""

FOLDERS: dict[str, Callable[[Path], object]] = {
    "run": Run.load,
    "run folder": lambda path: RunFolder(path).configuration(),
    "training folder": lambda path: claim(path, {}),
    "hf": lambda path: sc.models.load(f"hf:{path}"),
    "image folder": lambda path: sc.data.load(f"folder:{path}"),
    "cloud folder": lambda path: sc.data.load(f"clouds:{path}"),
    "camvid": lambda path: sc.data.load(f"camvid:{path}"),
    "cityscapes": lambda path: sc.data.load(f"cityscapes:{path}"),
    "pascal": lambda path: sc.data.load(f"pascal-context:{path}"),
    "pets": lambda path: sc.data.load(f"pets:{path}"),
    "shapenet": lambda path: sc.data.load(f"shapenet:{path}"),
}
"""What reads a folder."""

INSIDE = (
    "config.json",
    "records.jsonl",
    "recipe.json",
    "dataset.toml",
    "images",
    "labels",
    "synsetoffset2category.txt",
    "val",
    "JPEGImages",
    "train_test_split",
    "leftImg8bit/val",
    "clouds",
)
"""The names that readers of folders look for."""


def link_to_itself(path: Path) -> Path:
    path.symlink_to(path.name)
    return path


def two_links(path: Path) -> Path:
    path.symlink_to("other")
    path.with_name("other").symlink_to(path.name)
    return path


def broken_link(path: Path) -> Path:
    path.symlink_to("nothing")
    return path


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def link_to_pipe(path: Path) -> Path:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")
    return path


def listener(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as each:
        each.bind(str(path))
    return path


def device(path: Path) -> Path:
    path.symlink_to("/dev/zero")
    return path


def terminal(path: Path) -> Path:
    path.symlink_to("/dev/tty")
    return path


def empty(path: Path) -> Path:
    path.write_bytes(b"")
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def below_a_file(path: Path) -> Path:
    path.with_name("file").write_bytes(b"")
    return path.parent / "file" / path.name


def long_name(path: Path) -> Path:
    return path.with_name("a" * 300 + path.suffix)


def long_path(path: Path) -> Path:
    return path.parent / Path(*["a" * 200] * 40) / path.name


def with_nul(path: Path) -> Path:
    return path.with_name(f"a\x00{path.name}")


def lone_surrogate(path: Path) -> Path:
    return path.with_name(f"a\ud800{path.name}")


def no_permission(path: Path) -> Path:
    path.write_bytes(b"x")
    path.chmod(0)
    return path


def absent(path: Path) -> Path:
    return path


ODD = (
    link_to_itself,
    two_links,
    broken_link,
    pipe,
    link_to_pipe,
    listener,
    device,
    terminal,
    empty,
    folder,
    below_a_file,
    long_name,
    long_path,
    with_nul,
    lone_surrogate,
    no_permission,
    absent,
)
SUFFIXES = ("", ".safetensors", ".pth", ".png", ".npy", ".ply", ".txt", ".json", ".toml")


def _file_cases() -> list[tuple[str, Callable[[Path], Callable[[], object]]]]:
    cases = []
    for odd in ODD:
        for reader, read in FILES.items():
            for suffix in SUFFIXES:
                if (
                    reader in ("npy", "ply", "text")
                    and suffix != {"npy": ".npy", "ply": ".ply", "text": ".txt"}[reader]
                ):
                    continue

                def case(
                    root: Path,
                    odd: Callable[[Path], Path] = odd,
                    read: Callable[[Path], object] = read,
                    suffix: str = suffix,
                ):  # type: ignore[no-untyped-def]
                    path = odd(root / f"a{suffix}")
                    return lambda: read(path)

                cases.append((f"{reader} from {odd.__name__}{suffix}", case))
    return cases


def _folder_cases() -> list[tuple[str, Callable[[Path], Callable[[], object]]]]:
    cases = []
    for reader, read in FOLDERS.items():
        for odd in ODD:

            def case(root: Path, odd: Callable[[Path], Path] = odd, read: Callable[[Path], object] = read):  # type: ignore[no-untyped-def]
                path = odd(root / "a")
                return lambda: read(path)

            cases.append((f"{reader} from {odd.__name__}", case))
            for name in INSIDE:

                def inside(
                    root: Path,
                    odd: Callable[[Path], Path] = odd,
                    read: Callable[[Path], object] = read,
                    name: str = name,
                ):  # type: ignore[no-untyped-def]
                    (root / "a" / name).parent.mkdir(parents=True, exist_ok=True)
                    odd(root / "a" / name)
                    return lambda: read(root / "a")

                cases.append((f"{reader} with {name} as {odd.__name__}", inside))
    return cases


def _loops() -> list[tuple[str, Callable[[Path], Callable[[], object]]]]:
    """Folders that hold links to folders above them: two such links double the number of paths at each level."""

    def loop(root: Path) -> Callable[[], object]:
        for name in ("images", "labels"):
            (root / name / "below").mkdir(parents=True)
            for link in ("one", "two", "three"):
                (root / name / "below" / link).symlink_to("..", target_is_directory=True)
        return lambda: sc.data.load(f"pets:{root}")

    def deep(root: Path) -> Callable[[], object]:
        for name in ("images", "labels"):
            Path(root, name, *["a"] * 300).mkdir(parents=True)
        return lambda: sc.data.load(f"pets:{root}")

    def doubled(root: Path) -> Callable[[], object]:
        (root / "labels").mkdir()
        (root / "images").symlink_to("30")
        for level in range(31):
            (root / str(level)).mkdir()
            for link in ("one", "two"):
                if level:
                    (root / str(level) / link).symlink_to(root / str(level - 1))
        return lambda: sc.data.load(f"pets:{root}")

    return [("pets of a loop of links", loop), ("pets 300 folders deep", deep), ("pets of 2^30 paths", doubled)]


def _followed() -> list[tuple[str, Callable[[Path], Callable[[], object]]]]:
    """A link to a good file, and a link to that link, are followed."""

    def followed(subject):  # type: ignore[no-untyped-def]
        def case(root: Path) -> Callable[[], object]:
            path = subject.make(root)
            good = subject.read(path)
            path.rename(path.with_name("elsewhere"))
            path.with_name("link").symlink_to("elsewhere")
            path.symlink_to("link")

            def tried() -> None:
                if not subject.same(subject.read(path), good):
                    raise SilentError("what lies behind a link was read otherwise")

            return tried

        return case

    return [(f"{subject.name} behind two links", followed(subject)) for subject in WRITTEN if subject.changes]


CASES = [*_loops(), *_followed(), *_file_cases(), *_folder_cases()]


def run(tally: Tally, *, count: int = len(CASES), seed: int = 0) -> None:
    """Give every reader every odd path, or ``count`` of these pairs, evenly spread."""
    chosen = CASES[seed % len(CASES) :] + CASES[: seed % len(CASES)]
    chosen = chosen[:: max(1, len(CASES) // count)]
    with tempfile.TemporaryDirectory() as folder:

        def attempt(number: int) -> Callable[[], object]:
            root = Path(folder) / str(number)
            root.mkdir()
            return chosen[number][1](root)

        guarded(tally, attempt, len(chosen), lambda number: chosen[number][0])
