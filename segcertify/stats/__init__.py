"""Pure numbers: the binomial test, multiple-testing corrections, planning. No torch."""
