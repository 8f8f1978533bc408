"""The subcommands, one module a topic."""
