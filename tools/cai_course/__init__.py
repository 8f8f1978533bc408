"""The later chapters of the course, from the reference: the traces that it publishes, and its checkpoint file.

The n-gram of chapter 23 is a suite of its own, `course.ngram`. Here are the decoder (32), its training, evaluation
and file (33 to 35), sampling (36), caches (37, 38) and the whole in one (39). Inputs are those that the course states;
every other number is computed, and every `true` looked up. Words that name a unit, a policy, a limit of the evidence or
the next chapter are the course's.
"""
