"""The layers of a net, each with its formula and its gradient (CAI NEURAL API)."""
