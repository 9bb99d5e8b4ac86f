"""The flags `--tokenizer` and `--normalize`, which every command that reads text has."""

from absl import flags

from elmo_tf.cli import command_line
from elmo_tf.text import tokens


def define(flag_values: flags.FlagValues, otherwise: str | None = None) -> None:
    """Defines `--tokenizer` and `--normalize`, which mean the same in every command.

    Args:
      flag_values: of the command.
      otherwise: where the command takes them from if they are not given, in words for `--help`; the
        flags are None then. Without it they have defaults, "whitespace" and "none".
    """
    source = f" Default: {otherwise}." if otherwise else ""
    flags.DEFINE_enum(
        "tokenizer",
        None if otherwise else "whitespace",
        tokens.TOKENIZERS,
        "How a line of text is split into tokens. whitespace: at ASCII white space, as the "
        "exported model does it. The others come from tensorflow_text. unicode_whitespace: at "
        "white space of any script; unicode_script: also where the script changes, as between "
        "letters and punctuation; unicode_punctuation: also around each punctuation mark, symbol "
        "and Han character." + source,
        flag_values,
    )
    flags.DEFINE_enum(
        "normalize",
        None if otherwise else "none",
        tokens.NORMALIZATIONS,
        "Unicode normalization of the text before it is split. nfc: composes accents, which looks "
        "the same; nfkc: also replaces ligatures, wide letters and no-break spaces by plain ones."
        + source,
        flag_values,
    )


def settings(
    options: flags.FlagValues, tokenizer: str | None, normalize: str | None
) -> tuple[str, str]:
    """The tokenizer and normalization to use: of the flags, or else of the model.

    A flag that differs from the model's own is warned of: vectors and figures of text that is split
    in another way than the training's are worse, and nothing else shows it.

    Args:
      options: with the flags of `define`.
      tokenizer, normalize: the model's; None if they are not known.
    """
    chosen = []
    own = (("tokenizer", tokenizer, "whitespace"), ("normalize", normalize, "none"))
    for name, of_model, default in own:
        value = options[name].value
        if value is not None and of_model is not None and value != of_model:
            command_line.warn(f"--{name}={value}: the model was trained with {of_model}")
        chosen.append(value or of_model or default)
    return chosen[0], chosen[1]
