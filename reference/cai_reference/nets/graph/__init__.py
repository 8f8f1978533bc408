"""A float64 interpreter of layer graphs: forward, gradients, and a streaming session."""
