"""What a file of vectors may hold. Here, where no large library is imported."""

LAYERS = ("all", "elmo", "top", "average", "word")  # see `SentenceVectors`
DTYPES = ("float32", "float16")
