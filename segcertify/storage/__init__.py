"""Files that appear whole or not at all, runs that are not mixed up, and work that stops between two steps."""
