"""Models: layers wired together, with their parameters in a fixed registry order."""
