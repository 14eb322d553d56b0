"""`segcertify plan`: how many draws a certificate needs, before any draw is made."""

from dataclasses import asdict
from typing import Annotated

import typer

from segcertify.cli.options import Alpha, Correction, Draws, ErrorBudget, ErrorCount, Json, Noise, Quiet, Tau
from segcertify.cli.printing import Printer
from segcertify.errors import require_integer
from segcertify.noise import scale_for
from segcertify.noise.names import parse
from segcertify.numerals import exact, measured, upper_digits


def plan(
    components: Annotated[int, typer.Option("--N", "-N", help="Number of components (pixels, points) tested.")],
    tau: Tau[float] = 0.75,
    n: Draws[int | None] = None,
    p: Annotated[float | None, typer.Option("--p", help="Assumed probability of the tested labels.")] = None,
    target_radius: Annotated[
        float | None, typer.Option(help="A radius to prove, to see the sigma that it takes. All rotations: 3.1415926.")
    ] = None,
    noise: Noise[str] = "gaussian",
    alpha: Alpha = 0.001,
    correction: Correction[str] = "holm",
    k: ErrorCount = None,
    b: ErrorBudget = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """How many draws are needed, how many of them may disagree, and which sigma a radius takes. Draws nothing."""
    from segcertify.stats.planning import plan

    printer, drawn = Printer(json, quiet), parse(noise)
    if n is not None:
        require_integer("n", n, at_most=2**31 - 1)  # a table of all counts must fit into memory
    found = plan(components, tau, alpha=alpha, correction=correction, k=k, b=b, n=n, p=p)
    tolerates = "certifies nothing" if found.tolerates is None else f"{found.tolerates:,}"
    facts = {
        "components N": f"{found.N:,}",
        "tau, alpha, correction": f"{exact(tau)}, {exact(alpha)}, {found.correction}",
        "smallest n that certifies anything": f"{found.n_min:,}",
        f"disagreeing draws tolerated at n = {found.n:,}": tolerates,
    }
    if found.expected is not None:
        facts[f"expected certified fraction at p = {exact(p or 0)}"] = measured(found.expected)
    sigma = None if target_radius is None else scale_for(type(drawn(1.0)), target_radius, tau=tau)
    if sigma is not None:
        facts[f"sigma of {drawn} noise that proves R = {exact(target_radius or 0)}"] = upper_digits(sigma)
    printer.facts(facts)
    printer.result(**asdict(found), target_radius=target_radius, sigma=sigma)
