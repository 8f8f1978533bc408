"""What an engine that is asked against itself needs: facts about its model, its rounding, and rows that checks share.

A suite's given model and a user's own folder are asked the same questions. None of them needs a golden: an engine is
compared with itself, on the same tokens in other calls.
"""
