"""The reference's answers to the neural n-gram suite: the experiment, its records, its report, its vector cases."""
