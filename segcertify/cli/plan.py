"""`segcertify plan`: how many draws a certificate needs, before any draw is made."""

from dataclasses import asdict
from typing import Annotated

import typer

from segcertify.cli import options as opt
from segcertify.cli.options import Alpha, Correction, Draws, ErrorBudget, ErrorCount, Json, Noise, Quiet, Tau
from segcertify.cli.printing import Printer
from segcertify.cli.set_certificates import plan_of_sets
from segcertify.errors import InputError, require_integer
from segcertify.noise import scale_for
from segcertify.noise.names import NoiseName, parse
from segcertify.numerals import exact, exact_percent, measured, radius_text, upper_digits


def plan(
    components: Annotated[
        int | None, typer.Option("--N", "-N", help="Number of components (pixels, points) tested.")
    ] = None,
    tau: Tau[float] = 0.75,
    n: Draws[int | None] = None,
    p: Annotated[float | None, typer.Option("--p", help="Assumed probability of the tested labels.")] = None,
    target_radius: opt.TargetRadius[float | None] = None,
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
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """How many draws are needed, how many of them may disagree, and which sigma a radius takes. Draws nothing.

    For labels give -N, for sets -N and --sets, for a metric --share and --sigma.
    """
    from segcertify.stats.planning import plan

    printer, drawn = Printer(json, quiet), parse(noise)
    if n is not None:
        require_integer("n", n, at_most=2**31 - 1)  # a table of all counts must fit into memory
    if share is not None:
        _plan_metric(
            printer, drawn, sigma, radius=target_radius, tau=tau, share=share, alpha=alpha, n=n, both=two_sided
        )
        return
    if components is None:
        raise InputError("plan needs the number of components, such as -N 2048; for a metric, --share 0.5 --sigma 0.25")
    if sigma is not None or two_sided:
        raise InputError("--sigma and --two-sided are for a metric: add --share 0.5")
    if classes is not None and not sets:
        raise InputError(f"--classes {classes} is for the plan of sets: add --sets")
    if sets:
        plan_of_sets(printer, components, tau, alpha=alpha, classes=classes, n=n, n0=n0)
        return
    found = plan(components, tau, alpha=alpha, correction=correction, k=k, b=b, n=n, p=p, n0=n0)
    tolerates = "certifies nothing" if found.tolerates is None else f"{found.tolerates:,}"
    facts = {
        "components N": f"{found.N:,}",
        "tau, alpha, correction": f"{exact(tau)}, {exact(alpha)}, {found.correction}",
        "smallest n that certifies anything": f"{found.n_min:,}",
        f"disagreeing draws tolerated at n = {found.n:,}, if all components have as many": tolerates,
    }
    if found.correction == "holm" and found.tolerates is not None:
        alone = plan(1, tau, alpha=alpha, n=found.n).tolerates
        facts["tolerated at the last component, once Holm certified all others"] = f"{alone:,}"
    if found.expected is not None:
        facts[f"expected certified fraction at p = {exact(p or 0)}"] = measured(found.expected)
    wide = None if target_radius is None else scale_for(type(drawn(1.0)), target_radius, tau=tau)
    if wide is not None:
        facts[f"sigma of {drawn} noise that proves R = {exact(target_radius or 0)}"] = upper_digits(wide)
    printer.facts(facts)
    printer.result(**asdict(found), target_radius=target_radius, sigma=wide)


def _plan_metric(
    printer: Printer, drawn: NoiseName, sigma: float | None, *, radius: float | None, tau: float, share: float,
    alpha: float, n: int | None, both: bool,
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
    printer.facts(
        {
            "noise, radius R": f"{found.noise}, {radius_text(found.radius)}",
            "share of runs, alpha": f"{exact_percent(share)}, {exact(alpha)}{', both sides' if both else ''}",
            "smallest n that gives a bound": f"{found.n_min:,}",
            f"values left out or equal to the bound at n = {found.n:,}": left_out,
        }
    )
    printer.result(**asdict(found))
