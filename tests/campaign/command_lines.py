"""Random command lines over all commands and options, which are taken from the command line itself.

Most begin as a line that works (`WORKING`) and get a few odd values, so that they come far; some are
nothing but odd. All work that they ask for is small: counts of draws, steps and scenes are set in every line, and are
either small or impossible.
"""

import random
from typing import Any

import typer.main

from segcertify.cli import app

NUMBERS = (
    "nan", "inf", "-inf", "1e400", "-1e400", "1e-400", "-0", "-0.0", "0", "-1", "0.5", "1", "2", "1.0", "0.75",
    str(10**40), str(-(10**40)), "9" * 5000, str(2**63), str(2**63 - 1), str(2**31), "0x1f", "0b1", "0o7", "1_000",
    "1e3", "", " ", "1,5", "\uff11", "\u0663", "1 ", "+1", "--1", "1e", "True", "None", "5e-324",
    "1.7976931348623157e308",
    "0.9999999999999999", "0.49999999999999994", "1e-300", "1e17",
)  # fmt: skip
PATHS = (
    "", ".", "./", "a.png", "a.png/", "a.png/x", "label.png", "array.npy", "cloud.txt", "notes.txt", "empty", "set",
    "run",
    "votes.safetensors", "certificate.safetensors", "sets.safetensors", "metric.safetensors", "counts.safetensors",
    "radii.safetensors", "measured", "measured/votes/a-sigma0.25.safetensors",
    "run/records.jsonl", "run/config.json", "nowhere",
    "nowhere/deep/er",
    "null", "zero", "full", "pipe", "/proc/self/mem", "/proc/1/x", "n" * 256, "n" * 5000,
    "/".join(["d"] * 3000), "\udcff\udcfe",
    "caf\u00e9", "cafe\u0301", "\u202egnp.exe", "[red]x[/red]", "$x$", "~", "~nobody/x", "~\x01", "-", "--", "-x",
    "a b",
    "new\nline", "\x1b[31mred", "*", "a?b", "COM1", "...png", "..png", "tiny.py", "set/images", "\u200b", "%00",
    "x%26y",
)  # fmt: skip
MODELS = (
    "python:tiny:make", "trained:../models/lite.safetensors", "python:tiny:make?classes=2",
    "python:tiny:make?classes=x", "python:tiny:make?classes=" + "9" * 5000, "python:tiny:fails", "python:tiny:",
    "python::x", "python:nowhere:x",
    "python:tiny.py:make", "python:.:make", "python:..tiny:make", "python: :x", "python:os:getcwd",
    "python:tiny:make?scale=0", "python:tiny:make?scale=nan", "python:tiny:make?scale=1e9",
    "python:tiny:make?scale=-1", "python:tiny:make?scale=0.5,1", "python:tiny:make?base_size=0",
    "python:tiny:make?mean=1&std=0", "python:tiny:make?mean=nan,0,0&std=1,1,1", "python:tiny:make?std=inf",
    "python:tiny:make?mean=a",
    "python:tiny:make?weights=", "python:tiny:make?weights=votes.safetensors", "python:tiny:make?x=1&x=2",
    "python:tiny:make?",
    "python:tiny:make?mean=0,0,0&std=1,1,1&scale=multi", "python:tiny:make?a=\udcff",
    "trained:", "trained:nowhere", "trained:votes.safetensors", "trained:a.png", "trained:.", "trained:\udcff",
    "trained:" + "n" * 300, "hrnet:a.png", "hrnet:empty",
    "hrnet:w48", "hrnet:notes.txt?width=0", "pt2:a.png", "torchscript:a.png", "onnx:a.png", "onnx:empty", "onnx:.",
    "onnx:\udcff", "pointnet2:empty",
    "pointnet2:a.png?normals=perhaps", "hf:set", "hf:../x", "hf:\udcff", "hf:[bold]", "", ":", "?", ":x", "x",
    "python:tiny:make?denoiser=default", "python:tiny:make?denoiser=../models/denoiser.safetensors&denoiser_sigma=0.25",
    "python:tiny:make?denoiser=../models/denoiser.safetensors", "python:tiny:make?denoiser_sigma=0.25",
    "python:tiny:make?denoiser=a.png&denoiser_sigma=nan", "python:tiny:make?denoiser=../models/lite.safetensors",
    "trained:../models/denoiser.safetensors", "denoiser", "denoiser?widths=0,1",
    "denoiser?widths=4,4,4&blocks=1", "denoiser?x=1", "denoiser:a.png",
    "pets?x=1", "pets:x", "parts?category=Chair",
    "parts?category=cow", "parts?runs=0", "parts?runs=" + "9" * 4400, "lite", "camvid-non-robust", "\x00",
    "trained:\x00", "\udcff", "[red]", "python:[red]:x",
)  # fmt: skip
DATA = (
    "folder:set", "folder:set?split=", "folder:set?split=a", "folder:set?only=a", "folder:set?only=",
    "folder:set?only=z*",
    "folder:set?without=*", "folder:set?only=[", "folder:set?x=1", "folder:", "folder:nowhere", "folder:a.png",
    "folder:\x00", "folder:run", "pets:set",
    "pets:set?split=train+val", "camvid:set", "cityscapes:set", "pascal-context:set?order=json", "pascal-context:set",
    "shapenet:set", "shapenet:set?points=0",
    "clouds:clouds", "clouds:clouds?points=-1", "clouds:clouds?points=2", "clouds:clouds?points=" + "9" * 40,
    "clouds:clouds?points=" + "9" * 5000, "clouds:clouds?normals=true",
    "shapes:?count=1&points=64", "shapes:?count=0", "shapes:?count=-1", "shapes:?points=0", "shapes:?points=1",
    "shapes:?category=Chair&count=1&points=32",
    "shapes:?category=cow", "shapes:x", "shapes:?count=nan", "shapes:?count=" + "9" * 5000,
    "shapes:?split=val&count=1&points=16", "", ":", "?", "set", "\udcff", "folder:\udcff", "folder:" + "n" * 300,
    "folder:~nobody/x",
)  # fmt: skip
TEXTS = {
    "noise": (
        "gaussian", "laplace", "uniform", "rotation", "rotation:z", "rotation:1,1,0", "rotation:0,0,0",
        "rotation:nan,0,1", "rotation:1e300,1e300,1e300",
        "rotation:w", "gaussian?channels=0,1,2&axis=1", "gaussian?channels=", "gaussian?channels=-1",
        "gaussian?channels=0,0", "gaussian?channels=9", "gaussian?channels=" + "9" * 30,
        "gaussian?channels=" + "9" * 5000,
        "gaussian?axis=5&channels=0", "gaussian?axis=" + "9" * 30 + "&channels=0", "gaussian?x=1", "", "?", ":",
        "Gaussian", "\udcff",
    ),
    "correction": ("holm", "bonferroni", "k-fwer", "bh", "by", "Holm", "", "x", "\udcff"),
    "setting": (
        "sigma=0.25,n=60,tau=0.75", "sigma=0.25,n=10,tau=0.5", "0.25,10,0.75", "sigma=0.25", "sigma=nan,n=10,tau=0.75",
        "n=10,n=10", "sigma=0.25,n=1e3,tau=0.75", "", ",", "=", "sigma==1",
        f"sigma=0.25,n={10**40},tau=0.75", "sigma=0.25,n=-1,tau=0.75", "sigma=0.25,n=10,tau=1",
        "sigma=1e400,n=10,tau=0.75", "sigma=0.25,n=" + "9" * 5000 + ",tau=0.75", "sigma=1e-300,n=10,tau=0.75",
    ),
    "device": ("cpu", "cuda", "cuda:99", "cpu:0", "cpu:5", "meta", "mps", "xla", "", "gpu", "\udcff", "cuda:-1",
    "cuda:" + "9" * 30, "vulkan", "hpu"),
    "precision": ("fp32", "bf16", "fp16", "fp8", "", "\udcff"),
    "norm": ("linf", "l2", "l1", "", "\udcff"),
    "size": ("4x4", "4", "x", "0x4", "-1x4", "1e3x4", "99999x99999", "9" * 5000 + "x1", "", "\udcff"),
    "loss": ("cross-entropy", "segpgd", "cospgd", "", "x"),
    "view": ("1", "0.75m", "m", "0", "-1", "nan", "inf", "1e400", "", "1mm", "9" * 5000),
    "shape": ("Chair", "chair", "cow", "", "\udcff", "[red]"),
    "scale": ("0.25", "multi", "9", "", "nan"),
    "objective": ("noise", "consistency", "non-robust", "smoothadv", "distillation", "denoising", "x", ""),
    "optimiser": ("adam", "sgd", "x", ""),
    "schedule": ("poly", "cosine", "step", "x", ""),
    "labels": ("truth", "own", "x", ""),
    "metric": (
        "accuracy", "miou", "agreement", "dice:1", "recall:0", "area:2", "volume:1", "dice", "dice:", "dice:x",
        "area:-1",
        "area:" + "9" * 5000, "accuracy:1", "", ":", "\udcff", "[red]", "area:\u0663",
    ),
    "class_weights": ("", "none", "log", "balanced", "1,1,1", "1,x", "nan,1,1", "-1,1,1", ",", "0,0,0", "1e400,1,1"),
    "recipe_name": ("cityscapes-hrnet", "shapenet-pointnet2", "run/config.json", "x", "", "."),
    "licence": ("CC0", "", "[red]x", "\udcff", "<script>", "\x1b[31m"),
}  # fmt: skip
"""Values of options that are texts, some of them right."""
VALID: dict[str, tuple[str, ...]] = {
    "model": ("python:tiny:make",), "non_robust": ("python:tiny:make",), "data": ("folder:set", "folder:set?only=a"),
    "validation": ("folder:set?only=a",),
    "sigma": ("0.25", "0.5"), "n": ("60", "100"), "n0": ("2", "5"), "tau": ("0.5", "0.75"),
    "setting": ("sigma=0.25,n=60,tau=0.75",), "seed": ("0", "7", "0x1f", str(2**127)),
    "alpha": ("0.001", "0.1"), "steps": ("1", "2"), "restarts": ("1", "2"), "copies": ("1", "2"),
    "smoothed_draws": ("2",), "limit": ("1", "2"), "every": ("1", "2"), "short_side": ("6", "8"),
    "cap": ("0.75", "0.9"), "size": ("4x4",),
    "batch_size": ("1", "2"), "radius": ("0.1",), "k": ("1", "2"), "b": ("0", "1"), "components": ("1", "1000",
    "2097152"), "p": ("0.9", "0.99"), "target_radius": ("0.1", "1"),
    "label": ("label.png",), "ignore": ("255", "0"), "out": ("out", "new/out"), "level": ("1e-6", "0.01"),
    "claim": ("certificate.safetensors", "run", "measured"), "input": ("a.png", "array.npy"),
    "image": ("a.png",), "run": ("run", "measured"),
    "file": (
        "certificate.safetensors", "votes.safetensors", "sets.safetensors", "metric.safetensors", "counts.safetensors",
        "radii.safetensors",
    ),
    "models": ("../models/lite.safetensors",), "iterations": ("1", "2"), "looks": ("0", "2", "3"),
    "until": ("0.5", "1"), "metric": ("agreement", "area:1"), "share": ("0.5", "0.9"), "memory": ("1", "4"),
    "device": ("cpu",), "bn_momentum": ("0.1",), "rescale": ("1",), "norm": ("l2",), "shape": ("Chair",),
    "view": ("1", "0.75m"), "recipe_name": ("shapenet-pointnet2",), "scale": ("0.25",), "results": ("nowhere",),
    "epochs": ("0",), "crop": ("16",),
    "log_every": ("1",), "save_every": ("1",), "validate_every": ("1",), "warmup": ("0",), "rows": ("sigma=0.25",
    "n=100"), "times": ("1",), "start": ("nowhere",), "teacher": ("",), "named_model": ("0.5=python:tiny:make",),
}  # fmt: skip
MODELS_WITH_A_DENOISER = "python:tiny:make?denoiser=../models/denoiser.safetensors&denoiser_sigma=0.25"
BOUNDED = {
    "n": "60", "n0": "2", "steps": "1", "restarts": "1", "copies": "2", "iterations": "1", "limit": "1",
    "batch_size": "1", "out": "out", "model": "python:tiny:make", "size": "4x4",
}  # fmt: skip
"""What is set in every line of a command that has it, so that no long work is asked for."""
WORK = {
    "n", "n0", "steps", "restarts", "copies", "iterations", "epochs", "smoothed_draws", "attack_steps", "m",
    "short_side", "crop", "batch_size", "decay_every", "limit",
}  # fmt: skip
"""Options whose numbers are work: of these, odd ones are small or impossible."""
IMPOSSIBLE = tuple(each for each in NUMBERS if each not in ("1_000", "1e3", str(2**31), str(2**63 - 1), "1e17"))


MODEL, NOTHING = {"model": "python:tiny:make"}, None
DRAWS = {"sigma": "0.25", "n": "60", "n0": "2"}
TRAINED = {
    "data": "folder:set", "iterations": "2", "crop": "16", "log_every": "1", "save_every": "1", "validate_every": "1",
    "precision": "fp32",
}  # fmt: skip
WORKING: dict[str, tuple[dict[str, str | None], ...]] = {
    "certify": (
        {"input": "a.png", **MODEL, **DRAWS}, {"input": "array.npy", **MODEL, **DRAWS, "tau": "0.6"},
        {"input": "a.png", **MODEL, **DRAWS, "sets": "", "tau": "0.6"},
        {"input": "a.png", **MODEL, **DRAWS, "looks": "2", "until": "0.5", "tau": "0.6"},
        {"input": "a.png", **MODEL, **DRAWS, "metric": "agreement", "target_radius": "0.1", "share": "0.5"},
        {"input": "a.png", **MODEL, **DRAWS, "metric": "miou", "target_radius": "0.1", "label": "label.png"},
        {"input": "a.png", **DRAWS, "model": MODELS_WITH_A_DENOISER},
        {"input": "a.png", **MODEL, **DRAWS, "cap": "0.9"},
    ),
    "plan": (
        {"components": "1000", "n": NOTHING}, {"components": "1000", "n": "100", "p": "0.99"},
        {"share": "0.5", "sigma": "0.25", "target_radius": "0.1", "n": NOTHING},
        {"share": "0.5", "sigma": "0.25", "target_radius": "0.1", "n": "100", "two_sided": ""},
    ),
    "attack": ({"image": "a.png", **MODEL, "non_robust": "python:tiny:make", "radius": "0.1", **DRAWS},),
    "audit": (
        {"claim": "certificate.safetensors", **MODEL, "input": "array.npy", "n": "60"},
        {"claim": "sets.safetensors", **MODEL, "input": "array.npy", "n": "60"},
        {"claim": "metric.safetensors", **MODEL, "input": "array.npy", "n": "60"},
        {"claim": "run", **MODEL, "data": "folder:set", "n": "60"},
        {"claim": "measured", **MODEL, "data": "folder:set", "n": "60", "level": "0.01", "metric": "accuracy"},
        {"claim": "measured", **MODEL, "data": "folder:set", "n": "60", "level": "0.01", "metric": "area:road"},
        {"claim": "measured", **MODEL, "data": "folder:set", "n": "60", "level": "0.01", "sets": ""},
        {"claim": NOTHING, "sampler": "", **MODEL, "input": "array.npy", "n": "60"},
    ),
    "evaluate": (
        {**MODEL, "data": "folder:set", **DRAWS, "tau": "0.75", "steps": NOTHING, "restarts": NOTHING},
        {
            **MODEL, "data": "folder:set", "setting": "sigma=0.25,n=60,tau=0.75", "n": NOTHING, "sigma": NOTHING,
            "steps": NOTHING, "restarts": NOTHING,
        },
        {**MODEL, "data": "folder:set", **DRAWS, "tau": "0.75", "attack": "", "radius": "0.1", "smoothed_draws": "2"},
        {
            **MODEL, "data": "folder:set", **DRAWS, "tau": "0.75", "metric": "miou", "target_radius": "0.1",
            "steps": NOTHING, "restarts": NOTHING,
        },
        {
            **MODEL, "data": "folder:set", **DRAWS, "tau": "0.75", "sets": "", "cap": "0.9", "votes": "",
            "steps": NOTHING, "restarts": NOTHING,
        },
        {
            **MODEL, "data": "folder:set", **DRAWS, "tau": "0.75", "looks": "2", "until": "0.5", "steps": NOTHING,
            "restarts": NOTHING,
        },
    ),
    "train": (
        {**TRAINED, **MODEL}, {**TRAINED, "model": "lite?width=1"},
        {**TRAINED, "model": "denoiser?widths=4,4", "objective": "denoising"},
    ),
    "harden": ({**TRAINED, **MODEL}, {**TRAINED, **MODEL, "labels": "own"}),
    "show": ({},), "report": ({},), "join": ({},),
}  # fmt: skip
"""Options of each command that work together. "" is a flag that is set; None is an option that is left out."""


LONG = (("demo",), ("reproduce", "toy"))
"""Commands whose work cannot be made small: they come seldom, and always with something odd."""


def commands() -> dict[tuple[str, ...], Any]:
    """The commands by their words."""
    found: dict[tuple[str, ...], Any] = {}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        found |= {(name, each): child for each, child in inner.items()} if inner else {(name,): command}
    return found


class Lines:
    """Draws command lines; all that is drawn follows from the seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.commands = commands()

    def line(self) -> list[str]:
        """One command line, without the program's name."""
        first = self.random.choice([*dict.fromkeys(words[0] for words in self.commands)])
        words = self.random.choice([words for words in self.commands if words[0] == first])
        if words in LONG and self.random.random() < 0.9:
            return self.line()
        working = self.random.choice(WORKING.get(first, ({},)))
        line = [*words, *self._options(self.commands[words], working, least=int(words in LONG))]
        if words == ("reproduce", "toy"):
            line.append("--quick")
        draw = self.random.random()
        if draw < 0.1:
            self._break(line)
        return [word.replace("\x00", "\\0") for word in line]  # no process can be given a NUL

    def _options(self, command: Any, working: dict[str, str | None], *, least: int = 0) -> list[str]:
        """A value for each option that is chosen: those of a line that works, and a few others, some of them odd."""
        parameters = [each for each in command.params if "--help" not in each.opts]
        count = max(least, self.random.choice((0, 1, 1, 2, 3)))
        odd = {each.name for each in self.random.sample(parameters, min(count, len(parameters)))}
        values: list[list[str]] = []
        for each in parameters:
            needed = working.get(each.name, each.required or each.name in BOUNDED or None) is not None
            given = needed and (each.name in WORK or self.random.random() < 0.97)
            if each.name not in odd and not given and self.random.random() > 0.04:
                continue
            times = self.random.choice((1, 1, 1, 2)) if each.name in odd else 1
            for _ in range(times):
                values.append(self._written(each, odd=each.name in odd, given=working.get(each.name)))
        self.random.shuffle(values)
        return [word for words in values for word in words]

    def _written(self, parameter: Any, *, odd: bool, given: str | None) -> list[str]:
        if parameter.param_type_name == "argument":
            return [given if given and not odd else self._value(parameter, odd=odd)]
        flag = self.random.choice(parameter.opts)
        if getattr(parameter, "is_flag", False):
            return [f"{flag}={self._value(parameter, odd=True)}"] if odd and self.random.random() < 0.2 else [flag]
        parts = parameter.nargs if not odd or self.random.random() < 0.8 else 1
        value, *more = (given if given and not odd else self._value(parameter, odd=odd) for _ in range(parts))
        joined = self.random.random() < 0.3 and flag.startswith("--") and not more
        return [f"{flag}={value}"] if joined else [flag, value, *more]

    def _value(self, parameter: Any, *, odd: bool) -> str:
        name, default = parameter.name, parameter.default
        if not odd and name in VALID:
            return (
                BOUNDED.get(name) if name in BOUNDED and self.random.random() < 0.7 else self.random.choice(VALID[name])
            )
        if not odd and isinstance(default, int | float | str):
            return str(default)
        own = {
            **TEXTS, **dict.fromkeys(("model", "non_robust", "teacher", "named_model"), MODELS),
            **dict.fromkeys(("data", "validation"), DATA),
            **dict.fromkeys(("out", "input", "image", "file", "run", "claim", "label", "models", "start", "results"),
            PATHS),
        }.get(name)  # fmt: skip
        numbers = IMPOSSIBLE if name in WORK else NUMBERS
        pools: list[tuple[str, ...]] = [own] * 6 if own else [numbers] * 6
        pools += [numbers, PATHS]
        value = self.random.choice(self.random.choice(pools))
        return f"0.5={value}" if name == "named_model" else value

    def _break(self, line: list[str]) -> None:
        """Do to the whole line what no option's value does."""
        place = self.random.randrange(len(line) + 1)
        what = self.random.randrange(6)
        if what == 0:
            line.insert(
                place, self.random.choice(("--unknown", "-z", "--", "-", "--n", "--\udcff", "--[red]", "\x1b[31m", ""))
            )
        elif what == 1 and line:
            del line[min(place, len(line) - 1)]
        elif what == 2:
            self.random.shuffle(line)
        elif what == 3:
            line.insert(place, self.random.choice((*PATHS, *NUMBERS)))
        elif what == 4:
            line[:] = self.random.choices((*PATHS, *NUMBERS, *(word for words in self.commands for word in words)), k=4)
        else:
            del line[place:]
