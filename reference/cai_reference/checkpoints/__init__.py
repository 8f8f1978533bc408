"""Checkpoints: everything from which training goes on as if it had never stopped, as bytes.

`saved` is this project's own file, with the schedule, the place in the data and the generators. Nothing here touches a
file: bytes go in and come out.
"""
