"""Certificates of sets: which labels a component can still get, where no single label can be promised."""
