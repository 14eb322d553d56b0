"""Networks that can be trained here."""
