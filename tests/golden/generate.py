"""Make the golden files: votes, certificates, run folders, checkpoints and a trained model, as they are today.

    python tests/golden/generate.py

Run it only when behaviour is meant to change; then read the difference in ``expected.json`` line by line.

``files/`` holds what the package writes. ``files/expected.json`` holds the same content in plain numbers, taken from
the objects in memory and not from the files, so that a loader which misreads a file is caught. ``data/`` holds two
tiny data sets. `test_golden.py` loads the files, makes everything again, and holds both equal to ``expected.json``.

No golden model rounds (see `golden_models`). The script refuses a seed with which any entry of a noisy input comes
within 1e-5 of a threshold, so that the last bits of noise and rotations, which may differ between CPUs, are harmless.
"""

import contextlib
import csv
import hashlib
import io
import json
import math
import os
import shutil
import sys
import tempfile
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from unittest import mock

import golden_models
import numpy as np
import torch
from PIL import Image

import segcertify as sc

HERE = Path(__file__).resolve().parent
FILES, DATA = HERE / "files", HERE / "data"
ALPHA = 0.001
SAFE = 1e-5
"""No entry may be nearer to a threshold than this."""


# --- Inputs: sixteenths and sixty-fourths, exact in single precision.

LEVELS = (0, 1, 2, 1, 0, 6, 15, 7, 14, 15, 16, 10, 14, 16, 0, 16)


def image(height=6, width=7, variant=0):
    """An image in [0, 1] whose entries are mostly far from 1/2, (3, height, width)."""
    c, i, j = np.ogrid[:3, :height, :width]
    return (np.array(LEVELS, np.float32) / 16)[(5 * c + 3 * i * i + 7 * j + i * j + 4 * variant) % 16]


def steady():
    """An image of zeros and ones: little noise changes no label."""
    return (image() > 0.5).astype(np.float32)


def cloud(columns=3, variant=0, points=24):
    """Pairs of opposite points, the farthest at distance 1: pre-processing leaves them as they are."""
    k = np.arange(1, points // 2)[:, None]
    half = np.concatenate([[[64, 0, 0]], (k * [37, 23, 11] + k * k * [5, 3, 7] + variant) % 73 - 36]) / 64
    normals = np.eye(3)[(np.arange(points // 2) + variant) % 3]
    table = np.concatenate([half, normals], axis=1)
    return np.concatenate([table, -table]).astype(np.float32)[:, :columns]


def vector():
    """The input of the classifier."""
    return np.array([0.9375, 0.125, 0.5, 0.25, 0.75, 0.0], np.float32)


def chessboard(shape):
    """A mask of every other component."""
    return np.add.outer(*(np.arange(side) for side in shape)) % 2 == 0


# --- Votes and certificates.


@dataclass(frozen=True)
class Case:
    """One call of `sc.sample`, and the tau at which its votes are certified."""

    model: str
    x: np.ndarray
    noise: object
    tau: float = 0.75
    seed: int = 0
    n: int = 90
    n0: int = 10
    more: dict = field(default_factory=dict)

    def sample(self, **changes):
        """The votes, sampled now."""
        settings = {"n": self.n, "n0": self.n0, "seed": self.seed, **self.more, **changes}
        return sc.sample(getattr(golden_models, self.model)(), self.x, noise=self.noise, progress=False, **settings)


CASES = {
    "image-gaussian": Case("image", image(), sc.Gaussian(0.2), more={"input_id": "an image"}),
    "image-channels": Case("image", image(), sc.Gaussian(0.25, (0, 2)), seed=2),
    "image-laplace": Case("image", image(), sc.Laplace(0.125), seed=2, tau=0.6),
    "image-uniform": Case("image", image(), sc.Uniform(0.5), seed=3, tau=0.8),
    "image-prefixes": Case("image_logits", image(variant=1), sc.Gaussian(0.2), seed=5, more={"prefixes": (45, 60)}),
    "image-mask": Case("image", image(), sc.Gaussian(0.2), seed=5, more={"mask": chessboard((6, 7))}),
    "image-first-half": Case("image", image(), sc.Gaussian(0.25), seed=6, n=60, tau=0.6),
    "image-second-half": Case("image", image(), sc.Gaussian(0.25), seed=6, n=40, tau=0.6, more={"first": 60}),
    "image-steady": Case("image", steady(), sc.Gaussian(0.125), seed=16),
    "image-random": Case("fickle", image(), sc.Gaussian(0.1), seed=2**63 + 7, tau=0.55, n=100),
    "cloud-gaussian": Case("cloud", cloud(6), sc.Gaussian(0.125, (0, 1, 2), 1), seed=8),
    "cloud-laplace": Case("cloud", cloud(3), sc.Laplace(0.0625), seed=9),
    "cloud-uniform": Case("cloud", cloud(3), sc.Uniform(0.25), seed=11),
    "cloud-axis-rotation": Case("cloud", cloud(3), sc.AxisRotation(0.25, "z"), seed=11),
    "cloud-tilted-axis": Case("cloud", cloud(6), sc.AxisRotation(0.25, (1.0, 2.0, -1.0)), seed=12),
    "cloud-rotation": Case("cloud", cloud(3), sc.Rotation(0.25), seed=13),
    "cloud-rotated-points": Case("cloud", cloud(6), sc.Rotation(0.5, vectors=1), seed=14),
    "vector-gaussian": Case("classifier", vector(), sc.Gaussian(0.25), seed=15, n=100),
}

CORRECTIONS = {
    "holm": {"correction": "holm"},
    "bonferroni": {"correction": "bonferroni"},
    "k-fwer": {"correction": "k-fwer", "k": 5},
    "bh": {"correction": "bh"},
    "by": {"correction": "by"},
    "linf": {"norm": "linf"},
}


def certificates(votes):
    """Every golden certificate by its name, made now from golden votes."""
    made = {
        f"{name}-holm": sc.certify_votes(votes[name], tau=case.tau, alpha=ALPHA)
        for name, case in CASES.items()
        if name != "image-gaussian"
    }
    for name, settings in CORRECTIONS.items():
        made[f"image-gaussian-{name}"] = sc.certify_votes(votes["image-gaussian"], tau=0.75, alpha=0.01, **settings)
    for name in ("image-channels", "cloud-gaussian"):  # the dimension counts the chosen channels alone
        made[f"{name}-linf"] = sc.certify_votes(votes[name], tau=0.75, alpha=ALPHA, norm="linf")
    made["image-prefixes-at-60-holm"] = sc.certify_votes(votes["image-prefixes"].at(60), tau=0.75, alpha=ALPHA)
    return made


def calls():
    """Results that need the model, or are no certificate of a file: plain values by name."""
    classify, noise = golden_models.classifier(), sc.Gaussian(0.25)
    joint = {"n0": 10, "alpha": ALPHA, "seed": 3, "input_id": "joint", "progress": False}
    one_call = {"tau": 0.75, "alpha": ALPHA, "n": 90, "n0": 10, "input_id": "an image", "progress": False}
    found = {
        "joint_class": sc.joint_class(golden_models.image(), steady(), noise=sc.Gaussian(0.125), n=80, **joint),
        "joint_class that abstains": sc.joint_class(golden_models.image(), image(), noise=noise, n=40, **joint),
        "cohen.certify": sc.cohen.certify(classify, vector(), noise=noise, n=200, n0=20, alpha=ALPHA, seed=4),
        "cohen.certify that abstains": sc.cohen.certify(
            classify, vector(), noise=sc.Uniform(4.0), n=100, n0=20, alpha=ALPHA, seed=4
        ),
        "certify": sc.certify(golden_models.image(), image(), sigma=0.2, seed=0, **one_call),
    }
    plain = {name: plain_certificate(certificate) for name, certificate in found.items()}
    plain["cohen.predict"] = [
        sc.cohen.predict(classify, vector(), noise=noise, n=n, alpha=0.01, seed=5) for n in range(4, 16)
    ]
    plain["certified of counts made elsewhere"] = certified_counts()
    plain["plan"] = [plain_plan(sc.plan(**settings)) for settings in PLANS]
    return plain


def certified_counts():
    """How many components each correction certifies, at many levels: an error of one step shows."""
    found = {}
    for N, n, spread in ((3, 30, 9), (4, 60, 16), (1500, 100, 8), (1500, 100, 40), (1500, 1000, 300)):
        i = np.arange(N)
        agree = n - (i * i + 3 * i) % 1511 * spread // 1511
        votes = sc.Votes(candidate=i % 5, agree=agree, n=n, n0=10, noise=sc.Gaussian(0.25))
        for tau in (0.5, 0.75, 0.9):
            for name in ("holm", "bonferroni", "k-fwer", "bh", "by"):
                more = {"k": max(2, N // 40)} if name == "k-fwer" else {}
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # at some tau n=100 certifies nothing
                    made = [
                        sc.certify_votes(votes, tau=tau, alpha=float(alpha), correction=name, **more)
                        for alpha in 0.3 * 0.75 ** np.arange(40)
                    ]
                found[f"N={N}, n={n}, spread={spread}, tau={tau}, {name}"] = [
                    int((~each.abstained).sum()) for each in made
                ]
    return found


PLANS = (
    {"N": 1024 * 2048, "tau": 0.75, "alpha": 0.001, "n": 100},
    {"N": 42, "tau": 0.9, "alpha": 0.01, "correction": "bonferroni"},
    {"N": 1000, "tau": 0.6, "alpha": 0.05, "correction": "k-fwer", "k": 5, "n": 60},
    {"N": 1000, "tau": 0.75, "alpha": 0.001, "correction": "by", "n": 200, "p": 0.9, "seed": 1},
    {"N": 1000, "tau": 0.75, "alpha": 0.001, "n": 10},
)


# --- Plain values.


def plain_noise(noise):
    """A noise in plain values that depend on no class's repr and on no default."""
    scale = next(getattr(noise, name) for name in ("sigma", "b", "lam") if hasattr(noise, name))
    fields = {name: getattr(noise, name) for name in ("channels", "axis", "vectors") if hasattr(noise, name)}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    return {"kind": type(noise).__name__, "scale": float(scale).hex(), **plain}


def plain_votes(votes):
    """All that votes say."""
    return {
        "candidate": votes.candidate.tolist(),
        "agree": votes.agree.tolist(),
        "n": votes.n,
        "n0": votes.n0,
        "N": votes.N,
        "noise": plain_noise(votes.noise),
        "seed": votes.seed,
        "input_id": votes.input_id,
        "input_shape": list(votes.input_shape),
        "input_digest": votes.input_digest,
        "mask": None if votes.mask is None else votes.mask.tolist(),
        "draws": [list(interval) for interval in votes.draws],
        "earlier": {str(n): agree.tolist() for n, agree in sorted(votes.earlier.items())},
    }


def plain_certificate(certificate):
    """All that a certificate says."""
    same = ("norm", "correction", "guarantee", "n", "n0", "N", "k", "seed", "input_id")
    return {
        "labels": certificate.labels.tolist(),
        **{name: float(getattr(certificate, name)).hex() for name in ("radius", "tau", "alpha")},
        **{name: getattr(certificate, name) for name in same},
        "noise": plain_noise(certificate.noise),
    }


def plain_plan(plan):
    """A plan; its floats as they are written exactly."""
    return {name: value.hex() if isinstance(value, float) else value for name, value in asdict(plan).items()}


def plain_radii(votes):
    """The radius map of votes, and what IndivClass makes of them."""
    radii = sc.radius_map(votes, alpha=ALPHA)
    return {
        "shape": list(radii.shape),
        "radius_map": [float(radius).hex() for radius in radii.ravel()],
        "indiv_class": plain_certificate(sc.indiv_class(votes, alpha=ALPHA)),
    }


def plain_model(model):
    """A trained model: a digest of each tensor, its card, and its answer to a fixed input."""
    digests = {
        name: [str(tensor.dtype), list(tensor.shape), hashlib.sha256(tensor.numpy().tobytes()).hexdigest()]
        for name, tensor in sorted(model.state_dict().items())
    }
    card = json.loads(json.dumps({name: getattr(model_card(model), name) for name in CARD}))
    card["recipe"] = {FIRST_NAMES.get(name, name): value for name, value in card["recipe"].items()}
    return {"tensors": digests, "card": card, "logits": answers(model)}


def answers(model):
    """A model's logits of a fixed input."""
    with torch.no_grad():
        return model(torch.from_numpy(image(16, 20))[None]).tolist()


CARD = ("architecture", "classes", "colours", "data", "objective", "sigma", "recipe", "metrics", "licence", "date")

FIRST_NAMES = {"iterations": "steps", "rescale": "scale"}
"""The settings of a recipe whose names changed since ``expected.json`` was written."""


def model_card(model):
    """The card of a trained model."""
    return sc.models.card_of(model)


# --- The command line and what it writes. Spellings of options and names of files are here and nowhere else.

RUNS = {
    "image-gaussian": ("gaussian", ("0.2,80,0.75", "0.2,60,0.6", "0.125,60,0.9"), 20),
    "cloud-gaussian": ("gaussian", ("0.125,80,0.75",), 21),
    "cloud-rotation": ("rotation", ("0.25,80,0.75",), 22),
    "cloud-z-rotation": ("rotation:z", ("0.25,80,0.75", "0.25,60,0.6"), 23),
}
"""Of each evaluation the noise, the settings and the seed."""

SINGLES = {"image-laplace": 30, "cloud-tilted-axis": 31}
"""The seed of each single input that the command line certifies."""

MODEL_FILE, LOG_FILE = "model.safetensors", "log.csv"


def command_line(name, out):
    """The arguments of each command, to be run beside ``images`` and ``clouds``; it writes to ``out``."""
    common = ["--out", out, "--device", "cpu"]
    if name == "train":
        steps = [
            "--iterations",
            "6",
            "--log-every",
            "2",
            "--save-every",
            "2",
            "--batch-size",
            "4",
            "--crop",
            "16",
            "16",
        ]
        steps += ["--precision", "fp32", "--ema", "0.5", "--lr", "0.01", "--seed", "40", "--half"]
        data = "folder:images?split=train"
        return ["train", "--data", data, "--model", "hrnet?width=1&blocks=1&modules=1,1,1", *steps, *common]
    if name == "report":
        return ["report", out]
    if name.startswith("certify-"):
        chosen = name.removeprefix("certify-")
        file = "images/val/images/a.png" if chosen.startswith("image") else "clouds/val/chairs/a.txt"
        noise = {
            "image-laplace": ["--noise", "laplace", "--sigma", "0.125", "--tau", "0.6"],
            "cloud-tilted-axis": ["--noise", "rotation:1,2,-1", "--sigma", "0.25", "--b", "2"],
        }[chosen]
        noise += ["--correction", "k-fwer"] if "--b" in noise else []
        model = ["--model", f"python:golden_models:{chosen.partition('-')[0]}"]
        return ["certify", file, *model, *noise, "--n", "90", "--seed", str(SINGLES[chosen]), *common]
    noise, settings, seed = RUNS[name]
    named = ["sigma={},n={},tau={}".format(*setting.split(",")) for setting in settings]
    claims = [part for setting in named for part in ("--setting", setting)]
    claims += ["--correction", "holm", "--correction", "bonferroni", "--correction", "by"]
    kind = name.partition("-")[0]
    data = "folder:images?split=val" if kind == "image" else "clouds:clouds?split=val&points=24&normals=true"
    model = f"python:golden_models:{kind}"
    return ["evaluate", "--model", model, "--data", data, "--noise", noise, *claims, "--seed", str(seed), *common]


def run(name, folder, out):
    """Run a command of `command_line` in ``folder``, in this process."""
    from segcertify.cli import main

    shown = io.StringIO()
    with (
        contextlib.chdir(folder),
        mock.patch.object(sys, "argv", ["segcertify", *command_line(name, out)]),
        mock.patch.object(sys, "path", [str(HERE), *sys.path]),
        mock.patch.dict(os.environ, {"COLUMNS": "200"}),
        contextlib.redirect_stdout(shown),
        contextlib.redirect_stderr(shown),
    ):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"segcertify {name} failed:\n{shown.getvalue()}") from end


def records(path):
    """The records of a run's folder without times, in an order that no engine can change."""
    lines = (Path(path) / "records.jsonl").read_text(encoding="utf-8").splitlines()
    plain = [{k: v for k, v in json.loads(line).items() if not k.endswith("_seconds")} for line in lines]
    keys = ("id", "kind", "sigma", "n", "tau", "correction")
    return sorted(plain, key=lambda record: str([record.get(key) for key in keys]))


def report_rows(path):
    """The table that ``segcertify report`` wrote, without times: a mapping for each row."""
    lines = (Path(path) / "report" / "results.csv").read_text(encoding="utf-8").splitlines()
    return [{k: v for k, v in row.items() if not k.endswith(" s")} for row in csv.DictReader(lines)]


def losses(path):
    """The log of a training run: a row (step, learning rate, loss) for each line."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        return [[float(row[name]) for name in ("step", "lr", "loss")] for row in csv.DictReader(file)]


# --- A sampling run that stops in the middle.

STOPS = {"candidate": ("image-gaussian", 5), "agree": ("image-prefixes", 14)}
"""The phase in which a run stops: whose votes it samples, and how many calls its model answers (probes count too)."""


class StoppedError(BaseException):
    """Raised in the middle of a run."""


class Counted:
    """A model that counts the draws it was asked about, and stops the run at one call."""

    def __init__(self, model, stop=math.inf):
        self.model, self.left, self.draws = model, stop, 0

    def __call__(self, batch):
        self.left, self.draws = self.left - 1, self.draws + len(batch)
        if self.left < 0:
            raise StoppedError
        return self.model(batch)


def resume(phase, checkpoint, *, stop=math.inf):
    """Start or go on with the run of `STOPS`: its votes, and how many draws the model saw."""
    case = CASES[STOPS[phase][0]]
    model = Counted(getattr(golden_models, case.model)(), stop)
    settings = {"n": case.n, "n0": case.n0, "seed": case.seed, "batch_size": 7, **case.more}
    saved = {"checkpoint": checkpoint, "checkpoint_every": 0.0}
    return sc.sample(model, case.x, noise=case.noise, progress=False, **settings, **saved), model.draws


# --- Writing.


def write_data():
    """Two tiny data sets: images to train and to evaluate on, and clouds with normals and categories."""
    shutil.rmtree(DATA, ignore_errors=True)
    names = ", ".join(f'"class {i}"' for i in range(8))
    images = 'name = "golden images"\nimages = "{split}/images"\nlabels = "{split}/labels"\nignore = 255\n'
    clouds = (
        'name = "golden clouds"\nclouds = "{split}"\nclasses = ["left low", "right low", "left high", "right high"]'
    )
    clouds += '\ncolumns = ["x", "y", "z", "nx", "ny", "nz", "label"]\nignore = 9\n'
    write_text(DATA / "images" / "dataset.toml", f"{images}classes = [{names}]\n")
    write_text(
        DATA / "clouds" / "dataset.toml", f'{clouds}\n[categories]\nchairs = "golden chair"\ntables = "golden table"\n'
    )
    for split, name, size, variant in (
        ("val", "a", (6, 7), 0),
        ("val", "b", (5, 6), 2),
        *(("train", str(i), (18 + i, 22 - i), i) for i in range(4)),
    ):
        x = image(*size, variant)
        label = golden_models.image()(torch.from_numpy(x)[None])[0].numpy()
        label = np.where(np.add.outer(*map(np.arange, size)) % 5 == 4, (label + 1) % 8, label)
        label[-1, :2] = 255
        for kind, pixels in (("images", np.rint(255 * x.transpose(1, 2, 0))), ("labels", label)):
            path = DATA / "images" / split / kind / f"{name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    for name, variant in (("chairs/a", 0), ("chairs/b", 9), ("tables/c", 17)):
        x = cloud(6, variant, points=32)
        label = golden_models.cloud()(torch.from_numpy(x)[None])[0].numpy()
        label[::5], label[3] = (label[::5] + 1) % 4, 9
        rows = [" ".join(f"{value:.7g}" for value in row) for row in np.column_stack([x, label])]
        write_text(DATA / "clouds" / "val" / f"{name}.txt", "\n".join(rows) + "\n")
    golden_models.nearest()


def write_text(path, text):
    """Write a text file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def require_safe(name):
    """Refuse a seed that brings an entry near a threshold."""
    distance = golden_models.nearest()
    print(f"{name}: no entry is nearer to its threshold than {distance:.1e}")
    if distance < SAFE:
        raise SystemExit(f"{name}: choose another seed, so that no entry is nearer than {SAFE:g}")


def write_votes():
    """Every votes file and certificate file; returns what they hold."""
    votes = {}
    for name, case in CASES.items():
        votes[name] = case.sample(batch_size=16)
        require_safe(name)
        votes[name].save(FILES / "votes" / f"{name}.safetensors")
    found = certificates(votes)
    for name, certificate in found.items():
        certificate.save(FILES / "certificates" / f"{name}.safetensors")
    for phase, (_, stop) in STOPS.items():
        path = FILES / "checkpoints" / f"{phase}.safetensors"
        with contextlib.suppress(StoppedError):
            resume(phase, path, stop=stop)
            raise RuntimeError(f"the run in the phase {phase} did not stop")
        state = path.read_bytes()
        if f'\\"phase\\": \\"{phase}\\"'.encode() not in state:
            raise RuntimeError(f"the run did not stop in the phase {phase}: {state[:300]!r}")
    results = calls()
    require_safe("single calls")
    return {
        "votes": {name: plain_votes(each) for name, each in votes.items()},
        "certificates": {name: plain_certificate(each) for name, each in found.items()},
        "radii": {name: plain_radii(each) for name, each in votes.items()},
        "calls": results,
    }


def write_commands(folder):
    """What the command line writes; returns what it holds."""
    shutil.copytree(DATA, folder, dirs_exist_ok=True)
    singles, reports = {}, {}
    for name in SINGLES:
        run(f"certify-{name}", folder, name)
        require_safe(f"certify {name}")
        singles[name] = single(folder / name)
    for name in RUNS:
        golden, made = FILES / "runs" / name, folder / f"run-{name}"
        run(name, folder, made.name)
        require_safe(f"evaluate {name}")
        golden.mkdir(parents=True)
        for file in ("config.json", "records.jsonl"):
            shutil.copyfile(made / file, golden / file)
        reports[name] = report_rows(made)
    run("train", folder, "trained")
    for file in (MODEL_FILE, LOG_FILE):
        (FILES / "trained").mkdir(exist_ok=True)
        shutil.copyfile(folder / "trained" / file, FILES / "trained" / file)
    model = sc.models.load(f"trained:{FILES / 'trained' / MODEL_FILE}")
    runs = {name: records(FILES / "runs" / name) for name in RUNS}
    trained = plain_model(model) | {"losses": losses(FILES / "trained" / LOG_FILE)}
    return {"singles": singles, "runs": runs, "reports": reports, "trained": trained}


def single(folder):
    """What ``segcertify certify`` wrote."""
    votes = sc.Votes.load(folder / "votes.safetensors")
    certificate = sc.Certificate.load(folder / "certificate.safetensors")
    return {"votes": plain_votes(votes), "certificate": plain_certificate(certificate)}


def require_no_local_paths():
    """Refuse files that name a folder of this machine."""
    for local in (str(HERE.parents[1]), str(Path.home()), tempfile.gettempdir()):
        for path in (*FILES.rglob("*"), *DATA.rglob("*")):
            if path.is_file() and local.encode() in path.read_bytes():
                raise SystemExit(f"{path} names a folder of this machine: {local}")


def main():
    """Write everything anew."""
    torch.set_num_threads(1)
    shutil.rmtree(FILES, ignore_errors=True)
    write_data()
    expected = write_votes()
    with tempfile.TemporaryDirectory() as folder:
        expected |= write_commands(Path(folder))
    lines = [f'"{part}": {{\n{_entries(content)}\n}}' for part, content in expected.items()]
    write_text(FILES / "expected.json", "{\n" + ",\n".join(lines) + "\n}\n")
    require_no_local_paths()


def _entries(content):
    """One line for each entry, so that a difference shows which one it is."""
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in content.items())


if __name__ == "__main__":
    main()
