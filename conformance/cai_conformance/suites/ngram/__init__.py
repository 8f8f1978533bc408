"""The suite `course.ngram`: what it asks, and the facts that were published about it."""
