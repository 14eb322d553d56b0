"""Attacks: perturbations inside a ball that try to change a segmentation."""

from segcertify.attacks.balls import L1, L2, Linf
from segcertify.attacks.gradient_ascent import Attack
from segcertify.attacks.projected_gradient import pgd
from segcertify.attacks.rotations import rotate_clouds
from segcertify.attacks.smoothed import Recount, attack_smoothed, recount

__all__ = ["L1", "L2", "Attack", "Linf", "Recount", "attack_smoothed", "pgd", "recount", "rotate_clouds"]
