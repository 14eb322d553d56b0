"""Fused kernels for CUDA: from noise to counts in one pass each, beside plain torch twins that say what they compute.

`philox` draws noise and adds it, `scores` turns scores into counts. Their Triton forms, ``triton_philox`` and
``triton_scores``, are imported only where `fused` says that they run.
"""
