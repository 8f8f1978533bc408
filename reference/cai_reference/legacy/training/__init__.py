"""How the CAI NEURAL API trains: its pairs, its reported loss, its Adam, its loop, each with its known defects."""
