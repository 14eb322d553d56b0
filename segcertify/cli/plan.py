"""`segcertify plan`: how many draws a certificate needs, and how long they take, before any certificate is made."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from segcertify.cli import options as opt
from segcertify.cli.options import Alpha, Correction, Draws, ErrorBudget, ErrorCount, Json, Noise, Quiet, Tau
from segcertify.cli.printing import Printer
from segcertify.cli.set_certificates import plan_of_sets
from segcertify.errors import InputError, require_integer
from segcertify.noise import scale_for
from segcertify.noise.names import NoiseName, parse
from segcertify.numerals import exact, exact_percent, lower, measured, radius_text, upper_digits

if TYPE_CHECKING:
    from segcertify.sampling.timing import Timing
    from segcertify.stats.planning import Plan


def plan(
    components: Annotated[
        int | None,
        typer.Option(
            "--N",
            "-N",
            parser=opt.component_count,
            metavar="NUMBER OR SIZE",
            help="Number of components (pixels, points) tested, or their size as 360x480; with --model as it has them.",
        ),
    ] = None,
    tau: Tau[float] = 0.75,
    n: Draws[int | None] = None,
    p: Annotated[float | None, typer.Option("--p", help="Assumed probability of the tested labels.")] = None,
    target_radius: opt.TargetRadius[float | None] = None,
    looks: opt.Looks = 0,
    cap: opt.Cap = None,
    share: opt.Share[float | None] = None,
    sigma: opt.Sigma[float | None] = None,
    two_sided: Annotated[
        bool, typer.Option("--two-sided", help="A metric that is bounded on both sides.", rich_help_panel=opt.METRIC)
    ] = False,
    sets: opt.Sets = False,
    classes: Annotated[
        int | None,
        typer.Option(help="With --sets: how many classes the model has, if known.", rich_help_panel=opt.CLAIM),
    ] = None,
    n0: opt.Candidates = 10,
    noise: Noise[str] = "gaussian",
    alpha: Alpha = 0.001,
    correction: Correction[str] = "holm",
    k: ErrorCount = None,
    b: ErrorBudget = None,
    model: opt.Model[str | None] = None,
    input: opt.InputFile = None,
    size: opt.Size = None,
    batch_size: opt.BatchSize = None,
    device: opt.Device = None,
    trust_code: opt.TrustCode = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """How many draws are needed, how many of them may disagree, which sigma a radius takes, and how long it takes.

    For labels give -N (with --looks: tests within the n draws), for sets -N and --sets, for a radius map -N and --cap,
    for a metric --share and --sigma. Draws nothing, unless --model with --input or --size asks for the time on this
    machine, an estimate.
    """
    from segcertify.cli.timing import timed

    printer, drawn = Printer(json, quiet), parse(noise)
    if n is not None:
        require_integer("n", n, at_most=2**31 - 1)  # a table of all counts must fit into memory
    if share is None and two_sided:
        raise InputError("--two-sided is for a metric: add --share 0.5")
    if share is None and components is None and model is None:
        raise InputError(
            "plan needs the number of components, such as -N 2048 or -N 360x480; for a metric, --share 0.5 --sigma 0.25"
        )
    timing = timed(
        model, drawn(sigma or 1.0), input=input, size=size, batch_size=batch_size, device=device, trust_code=trust_code
    )
    if share is not None:
        _plan_metric(
            printer, drawn, sigma, radius=target_radius, tau=tau, share=share, alpha=alpha, n=n, both=two_sided,
            timing=timing,
        )  # fmt: skip
        return
    if classes is not None and not sets:
        raise InputError(f"--classes {classes} is for the plan of sets: add --sets")
    N = require_integer("N", (components if components is not None or timing is None else timing.components) or 0)
    if sets:
        of_sets, facts = plan_of_sets(N, tau, alpha=alpha, classes=classes, n=n, n0=n0)
        more, seconds = _time(timing, n0 + of_sets.n)
        printer.facts(facts | more)
        printer.result(**asdict(of_sets), **seconds)
        return
    found, recommended, facts = _plan_labels(
        N, cap or tau, alpha=alpha, correction=correction, k=k, b=b, n=n, p=p, n0=n0, looks=looks,
        capped=cap is not None,
    )  # fmt: skip
    if cap is not None and sigma is not None:
        facts["radius of the cap"] = radius_text(drawn(sigma).radius(cap))
    elif sigma is not None:
        facts[f"radius R of {drawn(sigma)}, {drawn(sigma).norm} norm"] = radius_text(drawn(sigma).radius(tau))
    wide = None if target_radius is None else scale_for(type(drawn(1.0)), target_radius, tau=tau)
    if wide is not None:
        facts[f"sigma of {drawn} noise that proves R = {exact(target_radius or 0)}"] = upper_digits(wide)
    times = _times(found, looks, correction=correction) if looks else []
    values = {"looks": times, "cap": cap, "recommended_n": recommended}
    more, seconds = _time(timing, n0 + (n or recommended))
    printer.facts(facts | more)
    values["radius"] = None if sigma is None else drawn(sigma).radius(cap or tau)
    printer.result(**asdict(found), target_radius=target_radius, sigma=wide, **values, **seconds)


def _plan_labels(
    N: int, tau: float, *, alpha: float, correction: str, k: int | None, b: int | None, n: int | None,
    p: float | None, n0: int, looks: int, capped: bool,
) -> tuple[Plan, int, dict[str, str]]:  # fmt: skip
    """What n draws say of labels at tau, or of the full radius of a map whose cap is tau: there Holm's test decides.

    Also a recommended n, and all in words.
    """
    from segcertify.stats.binomial import lower_bounds
    from segcertify.stats.correction import procedure
    from segcertify.stats.planning import plan, roomy_n

    if capped and (correction != "holm" or not n0):
        raise InputError("a capped radius map has Holm's levels, and needs a pilot: leave out --correction and --n0 0")
    if looks and n is None:
        raise InputError("the times of looks follow from n: add --n, such as --n 200")
    level = alpha / max(1, looks)
    found = replace(plan(N, tau, alpha=level, correction=correction, k=k, b=b, n=n, p=p, n0=n0), alpha=alpha)
    tolerates = "certifies nothing" if found.tolerates is None else f"{found.tolerates:,}"
    what = "gives a component the cap's radius" if capped else "certifies anything"
    roomy = roomy_n(N, tau, level, procedure(correction, k=k, b=b), n0 > 0)
    facts = {
        "components N": f"{found.N:,}",
        f"{'cap' if capped else 'tau'}, alpha, correction": f"{exact(tau)}, {exact(alpha)}, {found.correction}",
        f"smallest n that {what}": f"{found.n_min:,}",
        f"disagreeing draws tolerated at n = {found.n:,}, if all components have as many": tolerates,
    }
    if found.correction == "holm" and found.tolerates is not None:
        alone = plan(1, tau, alpha=level, n=found.n, n0=n0).tolerates
        facts["tolerated there at the last component, once Holm certified all others"] = f"{alone:,}"
    if n is None:
        often = plan(N, tau, alpha=level, correction=correction, k=k, b=b, n=roomy, n0=n0).tolerates
        facts["recommended n"] = f"{roomy:,}: {often:,} draws may disagree at every component"
    if capped:
        most = lower_bounds(found.n, level / N)[-1]
        facts[f"largest bound on p at n = {found.n:,} without a cap, if all draws agree"] = lower(float(most))
    if looks:
        times = ", ".join(map(str, _times(found, looks, correction=correction)))
        facts["looks"] = f"after {times} draws, each at alpha / {looks}"
    if found.expected is not None:
        facts[f"expected certified fraction at p = {exact(p or 0)}"] = measured(found.expected)
    return found, roomy, facts


def _times(found: Plan, looks: int, *, correction: str) -> list[int]:
    """The times of the looks, as `certify --looks` has them."""
    from segcertify.looks import look_times, require_family_wise
    from segcertify.stats.correction import procedure

    require_family_wise(procedure(correction))
    return list(look_times(found.n, looks, least=found.n_min))


def _time(timing: Timing | None, draws: int) -> tuple[dict[str, str], dict[str, Any]]:
    """The estimated time of so many draws, in words and for JSON; nothing if none was measured."""
    if timing is None:
        return {}, {}
    seconds = timing.seconds(draws)
    shown = f"{seconds:.0f} s" if seconds < 300 else f"{seconds / 60:.0f} minutes"
    each = f"{timing.seconds_per_draw:.3g} s each on {timing.device}"
    how = f"{each}, as measured in {timing.batches} batches of {timing.batch_size}"
    facts = {f"time of {draws:,} draws on this machine, an estimate": f"about {shown} ({how})"}
    return facts, {"estimated_seconds": seconds, "timing": asdict(timing)}


def _plan_metric(
    printer: Printer, drawn: NoiseName, sigma: float | None, *, radius: float | None, tau: float, share: float,
    alpha: float, n: int | None, both: bool, timing: Timing | None,
) -> None:  # fmt: skip
    """How many noisy runs bound a metric, and which of their values is the bound."""
    from segcertify.metrics.planning import plan_metric

    if sigma is None:
        raise InputError("the plan of a metric needs the noise: add --sigma 0.25")
    noise = drawn(sigma)
    found = plan_metric(
        noise, noise.radius(tau) if radius is None else radius, share=share, alpha=alpha, two_sided=both, n=n
    )
    left_out = "no bound" if found.left_out is None else f"{found.left_out:,}"
    more, seconds = _time(timing, found.n)
    printer.facts(
        {
            "noise, radius R": f"{found.noise}, {radius_text(found.radius)}",
            "share of runs, alpha": f"{exact_percent(share)}, {exact(alpha)}{', both sides' if both else ''}",
            "smallest n that gives a bound": f"{found.n_min:,}",
            f"values left out or equal to the bound at n = {found.n:,}": left_out,
        }
        | more
    )
    printer.result(**asdict(found), **seconds)
