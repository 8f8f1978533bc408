"""What is done with nets of the CAI NEURAL API: outlined, verified against what the library measured, decoded.

The reference reads and runs nets; here stand the questions that are asked of them. Nothing here depends on the name of
a net or of a sample: what can be asked follows from the layers.
"""
