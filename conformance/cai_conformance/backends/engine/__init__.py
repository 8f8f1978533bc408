"""Engines as backends: asked call by call, guarded, with the given model of a suite in a folder."""
