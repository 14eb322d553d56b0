"""Write the page of all measured times, and the sentences and tables that documents take from it.

    python benchmarks/speed_page.py

From the files in results/speed it writes results/speed/README.md, and the blocks between `<!-- speed: NAME -->` and
`<!-- end of speed -->` in README.md and docs/speed.md. Change the files by measuring again, never a block.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from segcertify.bench.tables import baseline_table, duration, stage_table
from segcertify.numerals import NOTHING, percent
from segcertify.report.table import Table

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "speed", ROOT / "results" / "speed" / "README.md"
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "speed.md")
BLOCK = re.compile(r"(<!-- speed: ([\w-]+) -->\n?).*?(<!-- end of speed -->)", re.S)

WHOLE: Any = {"break_long_words": False, "break_on_hyphens": False}
"""Links stay whole."""

Values = Mapping[str, Any]
HEADS = (
    "network", "input", "scale", "precision", "machine", "draws", "a certificate", "bare network", "ratio",
    "TFLOP/s of the network", "of the peak", "released pipeline, fp32", "ratio", "its vectorised form", "ratio",
)  # fmt: skip
AIMS = {0.25: (1.10, 700.0), 1.0: (1.03, 65.0)}
"""At each scale, how many times the bare network a certificate may take, and how many times as long the released
pipeline should take."""
PEAK = 0.3
"""The share of the measured peak that the bare network should reach."""
WANTED = (
    "No measurement with stages is committed yet. On a GPU, `python benchmarks/frames.py --model w48 --scale 0.25 1.0 "
    "--device cuda --baseline --name h200` makes them.\n"
)


def read(pattern: str) -> dict[str, Values]:
    """The measurements whose files have such a name, by it."""
    return {file.name: json.loads(file.read_text(encoding="utf-8")) for file in sorted(RESULTS.glob(pattern))}


def costs() -> dict[str, Values]:
    """The measurements of whole certificates: of `benchmarks/frames.py`, and of `segcertify bench --json`."""
    return read("frames-*.json") | read("bench-*.json")


def certificates() -> str:
    """A table of whole certificates, a row each."""
    notes = (
        "A certificate is sampling and tests, the median of a few; the bare network makes the same passes and nothing "
        "else. The ratios of the released pipeline are to our time.",
        "An asterisk marks times that are extrapolated from some of the draws or pixels.",
    )
    rows = tuple(_certificate(values) for values in costs().values())
    return Table("Whole certificates", HEADS, rows, notes).markdown() if rows else WANTED


def _certificate(values: Values) -> tuple[str, ...]:
    """The row of one measurement."""
    settings, baseline, counted = values["settings"], values["baseline"], values["tflops"] is not None
    before = (NOTHING,) * 4
    if baseline is not None:
        mark = "*" if baseline["extrapolated"] else ""
        before = (
            duration(baseline["total_seconds"]) + mark, f"{baseline['ratio']:.3g}",
            duration(baseline["vectorised_total_seconds"]) + mark, f"{baseline['vectorised_ratio']:.3g}",
        )  # fmt: skip
    return (
        settings["model"], " x ".join(map(str, settings["input"])), str(settings.get("scale", NOTHING)),
        settings["precision"], _name(values), str(settings["n0"] + settings["n"]), duration(values["total_seconds"]),
        duration(values["network_seconds"]), f"{values['ratio_to_network']:.2f}",
        f"{values['network_tflops']:.3g}" if counted else NOTHING,
        percent(_share_of_peak(values)) if counted else NOTHING, *before,
    )  # fmt: skip


def _share_of_peak(values: Values) -> float:
    return float(values["network_tflops"] / values["peak_tflops"])


def aims() -> str:
    """What was aimed at on a GPU, and what was reached, a row for each aim."""
    rows = list[tuple[str, ...]]()
    for values in read("frames-w48-*.json").values():
        scale, baseline, compiled = values["settings"]["scale"], values["baseline"], values["compiled"]
        if baseline is None or scale not in AIMS:
            continue
        (most, least), ratio, where = (
            AIMS[scale],
            values["ratio_to_network"],
            f"{scale}, {values['settings']['precision']}",
        )
        rows.append((where, f"at most {most:.2f} times the bare network", f"{ratio:.2f}", _met(ratio <= most)))
        if compiled is not None:
            slower = values["total_seconds"] / compiled["network_seconds"]
            wanted = f"at most {most:.2f} times the bare network as torch.compile makes it"
            rows.append((where, wanted, f"{slower:.2f}", _met(slower <= most)))
        faster, share = baseline["ratio"], _share_of_peak(values)
        rows.append(
            (where, f"{least:g} times as fast as the released pipeline", f"{faster:.3g}", _met(faster >= least))
        )
        wanted = f"a bare network at {percent(PEAK)} of the measured peak, or more"
        rows.append((where, wanted, percent(share), _met(share >= PEAK)))
    note = "The bare network runs as sampling runs it: folded, fused, and faster than torch.compile makes it."
    return Table("Aims", ("scale", "aim", "measured", ""), tuple(rows), (note,)).markdown() if rows else WANTED


def _met(reached: bool) -> str:
    return "met" if reached else "missed"


def cpu() -> str:
    """Draws, whole certificates and memory on a CPU."""
    wanted = (
        "No measurement is committed yet: `python benchmarks/cpu.py --parts time,whole,memory --json FILE` makes one.\n"
    )
    tables = [table.markdown() for values in read("cpu*.json").values() for table in _of_cpu(values) if table.rows]
    return "\n".join(tables) or wanted


def _of_cpu(values: Values) -> Iterator[Table]:
    """The tables of one measurement on a CPU."""
    where = f"{_name(values)}, {values['machine']['processor']}"
    rows = tuple(
        (
            name, str(row["batch_size"]), *(duration(row["clock"][way]) for way in ("before", "bare", "after")),
            f"{row['ratio_to_bare']:.2f}", f"{row['ratio_to_bare_by_processor']:.2f}",
        )
        for name, row in values.get("time", {}).items()
    )  # fmt: skip
    heads: tuple[str, ...] = (
        "model",
        "batch",
        "a draw before",
        "bare network",
        "a draw now",
        "now to bare",
        "by the processor's time",
    )
    note = (
        "Without the contract checks, which do not grow with n. The aim is 1.10 times the bare network at its fastest."
    )
    yield Table(f"A draw on a CPU ({where})", heads, rows, (note,))
    parts = (
        ("whole", "The command certify on an image of 360 x 480 pixels"),
        ("memory", "Three draws of 12 million pixels"),
    )
    for part, title in parts:
        rows = tuple(
            (
                name, version, duration(run["seconds"]), duration(run["processor_seconds"]),
                f"{run['peak_gb']:.2f} GB" + ("" if run["finished"] else ", then it was stopped"),
            )
            for name, versions in values.get(part, {}).items()
            for version, run in versions.items()
        )  # fmt: skip
        yield Table(f"{title} ({where})", ("model", "version", "time", "processor's time", "most memory"), rows)
    same = tuple(
        (name, str(row["images"]), f"{row['pixels']:,}", percent(row["same"]))
        for name, row in values.get("agreement", {}).items()
    )
    heads = ("model", "images", "pixels", "the same")
    yield Table(f"Certified labels of the faster copy and of the plain network ({where})", heads, same)


def clouds() -> str:
    """Clouds on a CPU, before and now, and on a GPU beside the loops of public code."""
    tables = list[Table]()
    for values in read("clouds-*.json").values():
        if (both := values.get("before and now, seconds a cloud")) is not None:
            before, now, times = both["before"], both["now"], both["times as fast"]
            rows = tuple((name, duration(before[name]), duration(now[name]), f"{times[name]:.2f}") for name in now)
            heads: tuple[str, ...] = ("what", "before", "now", "times as fast")
            notes = _bound(values.get("products of a cloud at the peak"))
            tables.append(Table(f"A cloud of 2,048 points ({_name(values)}), before and now", heads, rows, notes))
        if found := values.get("operations"):
            title = (
                f"{values['settings']['batch']} clouds at once beside the plain loops of public code ({_name(values)})"
            )
            heads = ("what", "ours", "plain", "times as fast", "plain, one cloud at a time", "times as fast")
            tables.append(Table(title, heads, tuple((name, *_beside(times)) for name, times in found.items())))
    return "\n".join(table.markdown() for table in tables)


def _bound(least: Values | None) -> tuple[str, ...]:
    """What no code for these products can be faster than, where it was measured."""
    if least is None:
        return ()
    return (
        f"The matrix products of one pass are {least['gflop']:.3g} GFLOP, and take {duration(least['seconds'])} at the "
        f"{least['peak_gflops']:.3g} GFLOP/s that large products reach there.",
    )


def _beside(times: Values) -> Iterator[str]:
    """Our time, and the plain loops' with how many times as fast ours are."""
    yield duration(times["ours"])
    for plain, faster in (("plain", "times as fast"), ("plain, one cloud at a time", "times as fast as one at a time")):
        yield duration(times[plain])
        yield f"{times[faster]:.3g}"


def splits() -> str:
    """Images a second over the data sets of bundled models, and how many pixels of them a CPU labels alike."""
    rows = list[tuple[str, ...]]()
    for values in read("splits-*.json").values():
        now, before, same = values["now"], values["before"], values["agreement"]
        rates = (NOTHING,) * 2
        if before is not None:
            faster = now["images_per_second"] / before["images_per_second"]
            rates = f"{before['images_per_second']:.3g}", f"{faster:.3g}"
        equal = (NOTHING,) * 2 if same is None else tuple(percent(each["share"], 2) for each in same.values())
        each_second = f"{now['images_per_second']:.3g}"
        rows.append((values["settings"]["model"], _name(values), str(now["images"]), each_second, *rates, *equal))
    heads = (
        "model", "machine", "images", "a second", "before", "times as fast", "as the CPU with its own noise",
        "with the same numbers",
    )  # fmt: skip
    wanted = "No measurement is committed yet: `python benchmarks/splits.py --model pets --data ...` makes one.\n"
    note = (
        "Each image from its file to its certificate, n0 + n = 110; images of pets have many widths, and a model is "
        "probed for each. The certificates of an image are compared pixel by pixel."
    )
    return Table("Validation splits", heads, tuple(rows), (note,)).markdown() if rows else wanted


def earlier() -> Table:
    """Frames that version 0.1.0 certified on an H200, before there were stages."""
    rows = tuple(
        (
            values["model"], str(values["scale"]), values["device"].removeprefix("NVIDIA "), values["version"],
            duration(values["sampling_seconds"] + values["testing_seconds"]), f"{values['peak_cuda_gib']:.1f} GiB",
        )
        for values in read("earlier/*.json").values()
    )  # fmt: skip
    heads = ("network", "scale", "machine", "segcertify", "a certificate", "most memory on the GPU")
    return Table("Frames of 1024 x 2048 pixels, HRNetV2 in fp32, n0 + n = 110, earlier", heads, rows)


def statistics() -> Table:
    """Ours, SciPy's vectorised tests and a test per component, a row for each machine."""
    rows = tuple(
        (
            _name(values), f"{values['settings']['components']:,}", duration(values["segcertify_seconds"]),
            duration(values["vectorised_seconds"]), f"{values['ratio_to_vectorised']:.3g}",
            duration(values["loop_seconds_extrapolated"] + values["holm_seconds"]) + "*",
            f"{values['ratio_to_loop']:.0f}",
        )
        for values in read("stats*.json").values()
    )  # fmt: skip
    heads = ("machine", "components", "segcertify", "vectorised SciPy", "ratio", "a test per component", "ratio")
    note = "Each with Holm's correction. An asterisk: the loop was timed on some components and extrapolated to all."
    return Table("P-values and Holm's correction from the same counts, n = 100", heads, rows, (note,))


def growth(values: Values, by: str, name: str) -> Table:
    """Time and memory over n or over N."""
    line, where = values[f"line_over_{by}"], _name(values)
    rows = tuple(
        (
            f"{row[by]:,}", duration(row["seconds"]),
            f"{row['resident_gib'] if row['cuda_gib'] is None else row['cuda_gib']:.2g} GiB",
        )
        for row in values[f"over_{by}"]
    )  # fmt: skip
    fixed = f"N = {values['over_n'][0]['components']:,}" if by == "n" else f"n = {values['over_components'][0]['n']}"
    note = (
        f"A straight line, {line['seconds_fixed']:.3g} s and {line['seconds_each']:.3g} s for each, is at most "
        f"{percent(line['residual'])} away from these times."
    )
    return Table(f"Growth with {name}, {fixed} ({where})", (name, "time", "most memory"), rows, (note,))


def scaling(values: Values) -> str:
    """What workers gained, and the model of many GPUs."""
    settings, rates = values["settings"], values["draws_per_second"]
    rows = tuple(
        (
            name,
            f"{rates[name]:.1f}",
            f"{ratio:.2f}",
            duration(min(run["start_seconds"] for run in values["runs"][name])),
        )
        for name, ratio in values["ratio_to_one_process"].items()
    )
    note = (
        f"All in one run, in turns, {settings['rounds']} times: {settings['scenes']} images of "
        f"{' x '.join(map(str, settings['input'][1:]))} pixels, n0 + n = {settings['n0'] + settings['n']}. The rate is "
        "the median of those in the middle of each evaluation, without its start. One process uses all cores, and "
        "workers share them."
    )
    heads = ("engine", "draws/s", "of one process", "start")
    measured = Table(f"Workers on {_name(values)}, the bundled model {settings['model']}", heads, rows, (note,))
    return measured.markdown() + "\n" + _modelled(values).markdown()


def _modelled(values: Values) -> Table:
    """Frames an hour with 1 to 64 GPUs, a column for each scale and n."""
    models, driver = values["modelled"], values["driver_seconds"]
    rows = tuple(
        (str(each[0]["gpus"]), *(f"{row['frames_per_hour']:,.0f} ({row['speedup']:.3g})" for row in each))
        for each in zip(*(model["rows"] for model in models), strict=True)
    )
    heads = ("GPUs", *(f"scale {model['scale']}, n = {model['n']:,}" for model in models))
    once, add = duration(driver["send"] + driver["certify"]), duration(driver["add"])
    notes = (
        "A model, not a measurement: frames an hour, and how many times those of one GPU. HRNetV2-W48 in bf16 on "
        "frames of 1024 x 2048 pixels, by the stages measured on one H200 "
        f"({', '.join(dict.fromkeys(model['from'] for model in models))}).",
        f"A single driver sends and certifies a frame in {once}, and adds up each range of draws in {add}, as measured "
        f"on {_name(values)}. Where it is slower than the GPUs, more of them gain nothing. Networks between machines "
        "and files are left out.",
    )
    return Table("Frames an hour with 1 to 64 GPUs, modelled", heads, rows, notes)


def scaled() -> str:
    """The tables of workers and GPUs, of all machines."""
    wanted = (
        "No measurement is committed yet: `python benchmarks/scaling.py --json results/speed/scaling-2-cores.json` "
        "makes one.\n"
    )
    return "\n".join(scaling(values) for values in read("scaling-*.json").values()) or wanted


def long_runs() -> str:
    """Memory at the first tenth of many scenes, in the middle and at the last."""
    engines = [each for values in read("long-run*.json").values() for each in values["engines"]]
    rows = tuple(
        (
            each["engine"], *(
                f"{row['driver_mib']:.0f} MiB, {row['all_mib']:.0f} MiB"
                for row in (each["rows"][0], each["rows"][len(each["rows"]) // 2], each["rows"][-1])
            ), f"{each['recorded']:,}",
        )
        for each in engines
    )  # fmt: skip
    if not rows:
        return ""
    some = engines[0]["rows"]
    heads = ("engine", *(f"after {some[index]['scenes']:,}" for index in (0, len(some) // 2, -1)), "scenes recorded")
    note = "What the driver holds, and what it and its workers hold together; pages that they share count for each."
    return Table("Thousands of scenes", heads, rows, (note,)).markdown()


def page() -> str:
    """The page of everything."""
    parts = [
        "# Speed",
        "Written by `python benchmarks/speed_page.py` from the files beside it. Do not edit. "
        "[docs/speed.md](../../docs/speed.md) says what the numbers mean, and how to measure your own machine.",
        certificates(),
        aims(),
        cpu(),
        clouds(),
        splits(),
        statistics().markdown(),
        earlier().markdown(),
    ]
    for file, values in read("growth-*.json").items():
        parts += [
            f"[{file}]({file})",
            growth(values, "n", "n").markdown(),
            growth(values, "components", "N").markdown(),
        ]
    parts += [scaled(), long_runs()]
    for file, values in costs().items():
        parts += [
            f"## {file.removesuffix('.json')}",
            f"[{file}]({file}), segcertify {values['versions']['segcertify']}, torch {values['versions']['torch']}, "
            f"{values['date'][:10]}.",
            stage_table(values).markdown(),
        ]
        parts += [baseline_table(values).markdown()] if values["baseline"] is not None else []
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def claims() -> str:
    """README's sentences on speed, of the files alone."""
    file, stats = next(iter(read("stats*.json").items()))
    sentences = [
        f"Tests and Holm's correction for {stats['settings']['components']:,} pixels take "
        f"[{duration(stats['segcertify_seconds'])}](results/speed/{file}). SciPy's vectorised tests with the same "
        f"correction take {stats['ratio_to_vectorised']:.3g} times as long, and a test per pixel, as in the released "
        f"code, some {_rounded(stats['ratio_to_loop'])} times."
    ]
    measured = read("frames-w48-*.json")
    if not measured:
        name, values = next(iter(read("earlier/frames-w48-*.json").items()))
        sentences.append(
            f"{values['n0'] + values['n']} draws of HRNetV2-W48 at scale {values['scale']} on such a frame took "
            f"[{duration(values['sampling_seconds'])}](results/speed/earlier/{name}) on an "
            f"{values['device'].removeprefix('NVIDIA ')} with version {values['version']}."
        )
    for name, values in measured.items():
        settings, baseline = values["settings"], values["baseline"]
        if baseline is None:
            continue
        draws, told = settings["n"] + settings["n0"], ", extrapolated" if baseline["extrapolated"] else ""
        released, fair = baseline["total_seconds"], baseline["vectorised_total_seconds"]
        sentences.append(
            f"{draws} draws of HRNetV2-W48 at scale {settings['scale']} on such a frame take "
            f"[{duration(values['total_seconds'])}](results/speed/{name}) in {settings['precision']} on an "
            f"{_name(values)}, {values['ratio_to_network']:.2f} times the bare network{_compiled(values)}. The "
            f"released pipeline, in fp32, takes {duration(released)} there ({baseline['ratio']:.3g} times as "
            f"long{told}), and {duration(fair)} with vectorised tests ({baseline['vectorised_ratio']:.3g} times)."
        )
    return textwrap.fill(" ".join(sentences), 118, initial_indent="  ", subsequent_indent="  ", **WHOLE) + "\n  "


def _compiled(values: Values) -> str:
    """A certificate's time beside the network that is compiled, if it was measured."""
    if values.get("compiled") is None:
        return ""
    return f" ({values['total_seconds'] / values['compiled']['network_seconds']:.2f} times as torch.compile makes it)"


def _rounded(ratio: float) -> str:
    """A large ratio, rounded down to two digits."""
    step = 10 ** (len(str(int(ratio))) - 2)
    return f"{int(ratio) // step * step:,}"


def _name(values: Values) -> str:
    """The machine, in a word or two."""
    machine = values["machine"]
    return machine["device"].removeprefix("NVIDIA ") if machine["device"] != "cpu" else f"{machine['cores']} cores"


def grown() -> str:
    """The tables of growth, of all machines."""
    tables = [
        growth(values, by, name).markdown()
        for values in read("growth-*.json").values()
        for by, name in (("n", "n"), ("components", "N"))
    ]
    wanted = "No measurement is committed yet: `python benchmarks/growth.py --device cuda --json FILE` makes one.\n"
    return "\n".join(tables) or wanted


BLOCKS: dict[str, Callable[[], str]] = {
    "claims": claims,
    "certificates": certificates,
    "aims": aims,
    "cpu": cpu,
    "clouds": clouds,
    "splits": splits,
    "statistics": lambda: statistics().markdown(),
    "earlier": lambda: earlier().markdown(),
    "growth": grown,
    "scaling": scaled,
}


def filled(text: str) -> str:
    """A document with its blocks as the files have them."""
    return BLOCK.sub(lambda found: found[1] + BLOCKS[found[2]]() + found[3], text)


def main() -> None:
    """Write the page and the blocks."""
    PAGE.write_text(page(), encoding="utf-8")
    for document in DOCUMENTS:
        document.write_text(filled(document.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
