"""Attacks: perturbations inside a ball that try to change a segmentation."""
