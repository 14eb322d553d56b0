"""From a model, an input and a noise to votes. Torch starts here."""
