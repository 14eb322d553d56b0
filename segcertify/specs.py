"""The grammar of specs: ``scheme:target?key=value&key=value``."""
