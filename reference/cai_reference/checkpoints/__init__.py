"""Checkpoints: everything from which training goes on as if it had never stopped, as bytes.

`course` is the file of the course's chapter 35, byte for byte. `saved` is this project's own, which also holds the
schedule, the place in the data and the generators. Nothing here touches a file: bytes go in and come out.
"""
