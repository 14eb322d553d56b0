"""Files that appear whole or not at all, and work that stops at a good place."""
