"""Nets of the CAI NEURAL API: their text files, and a float64 interpreter of their layer graphs.

A net is a flat list of layers, each with one predecessor or several. Here stand the file format, the formulas of the
layers, the streaming session, the builders that lay the layers of a block down in the library's order, and the way from
such a net to a decoder of `cai_reference.models` and back. What the library does beside its formulas (initial values,
the fitting loop and its defects) is in `cai_neural_api`.
"""
