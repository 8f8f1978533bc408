"""The command line of the conformance suite."""
