"""The checkpoint of the course's chapter 35: one file, little-endian, without gaps, with a checksum.

`CourseCheckpoint` is the content, `write_course_checkpoint` and `read_course_checkpoint` are the format.
"""

from cai_course.checkpoint.content import ByteBpe, CourseCheckpoint, LiteralTokens
from cai_course.checkpoint.file import course_checksum, read_course_checkpoint, write_course_checkpoint

__all__ = [
    "ByteBpe",
    "CourseCheckpoint",
    "LiteralTokens",
    "course_checksum",
    "read_course_checkpoint",
    "write_course_checkpoint",
]
