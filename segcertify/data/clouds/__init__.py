"""Point clouds and their labels."""
