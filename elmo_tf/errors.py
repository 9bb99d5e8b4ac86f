"""The two kinds of mistake that are the user's and not ours; see `command_line.run`."""


class InputError(ValueError):
    """Data, a file or a configuration is wrong. The message is one line; commands exit with 1.

    Args:
      message: one line. Where it names arguments of a function, it names them as Python does:
        "batch_size must be ...", "overwrite=True replaces it".
      *arguments: these names, each as often as the message has it. A command, whose user knows no
        arguments, shows its flags in their place; see `elmo_tf.cli.command_line.in_flags`.
    """

    def __init__(self, message: str = "", *arguments: str) -> None:
        super().__init__(message)
        self.arguments = arguments

    # Keras adds several lines, with colour codes, to what a layer raises, unless it finds this.
    _keras_call_info_injected = True


class UsageError(InputError):
    """A command or function was called wrongly; as `InputError`, but commands exit with 2."""


def printable(name: str) -> str:
    """A name from a user's file as an error of one line shows it: quoted where it has to be."""
    return name if name.isprintable() else repr(name)
