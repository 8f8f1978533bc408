"""Training: optimiser, schedules, clipping, loops, selection, and the state from which a run goes on."""
