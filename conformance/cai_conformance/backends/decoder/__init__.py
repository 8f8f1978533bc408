"""The reference's answers to the decode suites: plan, training, arms, caches, records, vector cases."""
