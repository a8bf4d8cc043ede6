"""Draws which keys each query sees, as the attention itself has it: with zero scores all visible keys have the same weight, and
with rows of a unit matrix as values column j of the result is the weight of key j. Examples:

    python -m ops_transformer mask --causal --queries 4 --keys 9        new tokens behind a cache
    python -m ops_transformer mask --causal --window 2, --queries 12    the token itself and two before it
    python -m ops_transformer mask --causal --lengths 3,5,2:6           packed sequences; 2:6 has 2 queries and 6 keys
    python -m ops_transformer mask --sparse-mode 6 --prefix 4           Ascend's words"""
import itertools
import os
import re

from ops_transformer.tools import Fault, WrongArguments, picture, screen

HELP = "draw which keys each query sees, in the terminal and as PNG"
_MOST = 4096      # queries, and keys
_WIDTH = 768      # keys of one call: the largest head dimension
_USUAL = 8        # queries
_WITH_MASK = (0, 1, 5)  # sparse modes whose mask tensor is looked at


def add_arguments(parser):
    parser.add_argument("--causal", action="store_true", help="the last query sees the last key, others so many keys less")
    parser.add_argument("--window", metavar="L,R", help="keys to the left and to the right of the diagonal; nothing: no limit")
    parser.add_argument("--queries", type=int, metavar="N", help=f"query rows (default {_USUAL})")
    parser.add_argument("--keys", type=int, metavar="N", help="keys (default: as many as queries)")
    parser.add_argument("--lengths", metavar="LIST", help="packed sequences: 5,3 or, with other numbers of keys, 5:9,3:3")
    parser.add_argument("--sparse-mode", type=int, metavar="M", help="Ascend's sparseMode, 0 to 8, with a mask that hides nothing more")
    parser.add_argument("--pre-tokens", type=int, metavar="N", help="of modes 0, 4, 7 and 8")
    parser.add_argument("--next-tokens", type=int, metavar="N", help="of modes 0, 4, 7 and 8")
    parser.add_argument("--prefix", type=int, metavar="N", help="keys that all queries see, of modes 5 and 6")
    parser.add_argument("--png", metavar="FILE", help="draw into a picture, too (needs matplotlib)")


def run(arguments):
    sequences = lengths_of(arguments)
    options = options_of(arguments, sequences)
    if arguments.png:
        picture.require()
    visible = ask(sequences, packed=arguments.lengths is not None, options=options)
    title = title_of(arguments, sequences)
    picture.print_grid(visible, sequences, title)
    if arguments.png:
        try:
            picture.save(visible, sequences, title, arguments.png)
        except OSError as error:
            raise WrongArguments(f"--png {arguments.png}: {error.strerror or error}") from None
        print(f"written: {arguments.png}")
    return 0


# ---- What is asked for ------------------------------------------------------------------------------------------------------


def lengths_of(arguments):
    """Pairs of query rows and keys."""
    if arguments.lengths is None:
        queries = _USUAL if arguments.queries is None else arguments.queries
        keys = queries if arguments.keys is None else arguments.keys
        for name, number in (("--queries", queries), ("--keys", keys)):
            if not 1 <= number <= _MOST:
                raise WrongArguments(f"{name} {number}: has to be from 1 to {_MOST}")
        return [(queries, keys)]
    for name in ("queries", "keys"):
        if getattr(arguments, name) is not None:
            raise WrongArguments(f"--{name} {getattr(arguments, name)}: --lengths says it already")
    sequences = []
    for word in arguments.lengths.split(","):
        parts = word.split(":")
        if len(parts) > 2 or not all(part.isdecimal() for part in parts):
            raise WrongArguments(f"--lengths {arguments.lengths}: {word!r} is neither a length nor two as in 5:9")
        sequences.append((int(parts[0]), int(parts[-1])))
    for name, total in zip(("queries", "keys"), map(sum, zip(*sequences))):
        if not 1 <= total <= _MOST:
            raise WrongArguments(f"--lengths {arguments.lengths}: has {total} {name} in all; it may be from 1 to {_MOST}")
    return sequences


def window_of(text):
    """(left, right), None without a limit."""
    sides = [side.strip() for side in text.split(",")]
    try:
        left, right = (None if side == "" else int(side) for side in sides)
    except ValueError:
        raise WrongArguments(f"--window {text}: has to be two numbers as in 3,0; without a limit: 3, or ,0") from None
    return left, right


def options_of(arguments, sequences):
    """Arguments of the attention; what does not go together it refuses itself."""
    options = {}
    if arguments.causal:
        options["causal"] = True
    if arguments.window is not None:
        options["window"] = window_of(arguments.window)
    for name in ("pre_tokens", "next_tokens"):
        if getattr(arguments, name) is not None:
            options[name] = getattr(arguments, name)
    if arguments.prefix is not None:
        options["prefix"] = [arguments.prefix] * len(sequences)
    if arguments.sparse_mode is None:
        words = [f"--{name.replace('_', '-')}" for name in ("pre_tokens", "next_tokens", "prefix") if name in options]
        if words:
            raise WrongArguments(f"{words[0]}: belongs to --sparse-mode, which is not given")
    else:
        options["sparse_mode"] = arguments.sparse_mode
    return options


def title_of(arguments, sequences):
    words = ["causal"] if arguments.causal else []
    if arguments.window is not None:
        sides = ("no limit" if side is None else str(side) for side in window_of(arguments.window))
        words.append(f"window ({', '.join(sides)})")
    for name in ("sparse_mode", "pre_tokens", "next_tokens", "prefix"):
        if getattr(arguments, name) is not None:
            words.append(f"{name.replace('_', ' ')} {getattr(arguments, name)}")
    queries, keys = map(sum, zip(*sequences))
    words.append(f"{queries} queries, {keys} keys")
    if arguments.lengths is not None:
        words.append(f"{len(sequences)} sequences")
    return ", ".join(words)


# ---- The answer -------------------------------------------------------------------------------------------------------------


def ask(sequences, packed, options):
    """A boolean tensor [queries, keys]: True where the query sees the key."""
    os.environ["ASCEND_CPU_LOG"] = os.environ.get("ASCEND_CPU_LOG") or "off"  # what is refused is said once, below
    try:
        import torch

        from ops_transformer import flash_attention, flash_attention_varlen
    except ImportError as error:
        raise Fault(f"mask needs the attention for torch: {error}") from None

    queries, keys = map(sum, zip(*sequences))
    width = min(keys, _WIDTH)
    lead = () if packed else (1,)  # axes: packed [tokens, heads, features], else [batch, tokens, heads, features]
    if options.get("sparse_mode") in _WITH_MASK:
        options = {**options, "atten_mask": torch.zeros(*map(max, zip(*sequences)), dtype=torch.bool)}
    query, key = (torch.zeros(*lead, count, 1, width) for count in (queries, keys))
    parts = []
    begins = range(0, keys, width)
    with screen.progress(len(begins), "attention") as advance:
        for begin in begins:
            value = torch.zeros(keys, 1, width)
            value[begin:begin + width, 0].fill_diagonal_(1)
            value = value.reshape(*lead, keys, 1, width)
            try:
                if packed:
                    ends = [[0, *itertools.accumulate(lengths)] for lengths in zip(*sequences)]
                    out = flash_attention_varlen(query, key, value, *ends, **options)
                else:
                    out = flash_attention(query, key, value, layout="BSND", **options)
            except (TypeError, ValueError) as error:
                raise WrongArguments(_sentence(error)) from None
            parts.append(out.reshape(queries, width)[:, :keys - begin] > 0)
            advance()
    return torch.cat(parts, dim=1)


def _sentence(error):
    """What an error says, without the time and place that texts of the C interface begin with."""
    return re.sub(r"^\[PID:.*?AclNN_Parameter_Error\(\w+\): ", "", " ".join(str(error).split()))
