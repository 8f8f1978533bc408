"""The reference's answers to the nine decode suites: plan, training, arms, caches, records, vector cases."""
