"""What imitates the CAI NEURAL API as it is, defects included, so that its published runs can be repeated.

Nothing here is a model for new code: the generator, the initial values, the fitting step, the tokenizer and the
samplers do what that library does, and each defect is named where it is imitated.
"""
