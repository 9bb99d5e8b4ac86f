"""Choices for vector files, in a module that imports no large library."""

LAYERS = ("all", "elmo", "top", "average", "word")  # see `SentenceVectors`
DTYPES = ("float32", "float16")
