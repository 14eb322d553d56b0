"""The four certificates of one photograph, from two runs of the bundled model `pets`: writes `certificates.png`."""

import numpy as np
from matplotlib.figure import Figure

import segcertify as sc
from segcertify.demo import photograph
from segcertify.figures.painting import painted
from segcertify.figures.palette import palette
from segcertify.figures.sets import sets_image
from segcertify.numerals import percent, radius_text

COLOURS = palette(3)  # background, cat, dog

if __name__ == "__main__":
    model, x = sc.models.load("pets"), photograph()
    smooth = sc.Smooth(model, sigma=0.25, seed=0)
    votes = smooth.votes(x, n=100, n0=10, counts=True)
    labels = sc.certify_votes(votes, tau=0.75, alpha=0.001)
    sets = sc.certify_sets(votes, tau=0.75, alpha=0.001)
    radii = sc.radius_map(votes, alpha=0.001)
    area = sc.certify_metric(model, x, sc.metrics.area(1), sigma=0.25, radius=labels.radius, n=60, seed=1)

    figure = Figure(figsize=(12, 7), layout="constrained")
    (left, right), (below_left, below_right) = figure.subplots(2, 2)
    left.imshow(painted(x.mean(0).numpy(), labels.labels, COLOURS))
    left.set_title(
        f"labels: {percent(labels.certified / labels.N)} keep theirs within R = {radius_text(labels.radius, 3)}"
    )
    right.imshow(sets_image(sets, COLOURS, x.mean(0).numpy()))
    few = percent(float(np.mean(sets.sizes <= 2)))
    right.set_title(f"sets: {few} have at most two labels left (striped: two) within R")
    shown = below_left.imshow(radii, cmap="viridis")
    figure.colorbar(shown, ax=below_left, label="R of each pixel (0: none)")
    below_left.set_title("radius map: each pixel's own R, all at once")
    for axes in (left, right, below_left):
        axes.axis("off")
    values = np.sort(area.values) / x[0].numel()
    below_right.hist(values, bins=15, color=COLOURS[1])
    for bound in (area.bound, area.upper):
        below_right.axvline(bound / x[0].numel(), color="black")
    below_right.set_title(
        "metric: under attack within R, half of the noisy runs\nhave a cat of an area between the lines"
    )
    below_right.set_xlabel("share of the photograph that is labelled cat, in 60 noisy runs")
    figure.savefig("certificates.png", dpi=110)
    print(labels.claim, sets.claim, area.claim, sep="\n\n")
