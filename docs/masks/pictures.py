"""What is drawn: every picture is a heading and panels, every panel one sequence of a call of the operator."""

from dataclasses import dataclass
from typing import Optional

from visible import NO_LIMIT, Call

SHAPES = [(6, 6), (4, 6), (6, 4)]  # Sq = Skv, Sq < Skv, Sq > Skv


@dataclass
class Panel:
    call: Call
    caption: list  # lines of text
    sequence: int = 0
    diagonal: Optional[int] = None  # row i and key i + diagonal belong to the same token; None: no diagonal


def tokens(number):
    return "no limit" if number == NO_LIMIT else str(number).replace("-", "\N{MINUS SIGN}")


def window(pre, next):
    return f"preTokens {tokens(pre)}, nextTokens {tokens(next)}"


def diagonal_of(mode, q_len, kv_len):
    return None if mode == 1 else 0 if mode in (0, 2) else kv_len - q_len


def panel(mode, shape, *remarks, **options):
    """A single sequence; the lengths and what the mode reads come first in the caption."""
    call = Call(mode, [shape], **options)
    caption = [f"Sq {shape[0]}, Skv {shape[1]}"]
    if mode in (0, 4):
        caption.append(window(call.pre, call.next))
    if call.prefix is not None:
        caption.append(f"prefix {call.prefix}")
    return Panel(call, caption + list(remarks), 0, diagonal_of(mode, *shape))


def all_shapes(mode, **options):
    return [panel(mode, shape, **options) for shape in SHAPES]


# The last keys are padding, and one pair is hidden by itself.
def some_mask(q_len, kv_len):
    return ["".join("1" if j == kv_len - 1 or (i, j) == (2, 1) else "0" for j in range(kv_len)) for i in range(q_len)]


def with_masks(mode, prefixes=(None, None, None)):
    return [panel(mode, shape, mask=some_mask(*shape), prefix=prefix) for shape, prefix in zip(SHAPES, prefixes)]


# Four causal sequences whose rows are shared out to two cards after row 5, in the middle of the second sequence.
SPLIT_7 = {"first": Call(7, [(3, 3), (2, 6)], pre=6, next=-2), "second": Call(3, [(2, 6), (5, 5), (4, 4)])}
SPLIT_8 = {"first": Call(2, [(3, 3), (2, 4)]), "second": Call(8, [(3, 4), (5, 5), (4, 4)], pre=4, next=1)}

MODE_7 = [
    Panel(Call(3, [(4, 6)]), ["before: sparseMode 3", "Sq 4, Skv 6"], 0, 2),
    Panel(SPLIT_7["first"], ["card 1, last sequence:", "band, Sq 2, Skv 6", window(6, -2)], 1, 4),
    Panel(SPLIT_7["second"], ["card 2, first sequence:", "sparseMode 3, Sq 2, Skv 6"], 0, 4),
    Panel(SPLIT_7["first"], ["card 1, all others:", "as mode 3, Sq 3, Skv 3"], 0, 0),
]
MODE_8 = [
    Panel(Call(2, [(5, 4)]), ["before: sparseMode 2", "Sq 5, Skv 4"], 0, 0),
    Panel(SPLIT_8["first"], ["card 1, last sequence:", "sparseMode 2, Sq 2, Skv 4"], 1, 0),
    Panel(SPLIT_8["second"], ["card 2, first sequence:", "band, Sq 3, Skv 4", window(4, 1)], 0, 1),
    Panel(SPLIT_8["second"], ["card 2, all others:", "as mode 2, Sq 5, Skv 5"], 1, 0),
]

PICTURES = {
    "mode-0": ("sparseMode 0: the mask, and a window from the top left", all_shapes(0, pre=1, next=2)),
    "mode-0-mask": ("sparseMode 0 with a mask that hides something",
                    [panel(0, shape, pre=2, next=0, mask=some_mask(*shape)) for shape in SHAPES]),
    "mode-1": ("sparseMode 1: the mask alone", with_masks(1)),
    "mode-2": ("sparseMode 2: causal from the top left", all_shapes(2)),
    "mode-3": ("sparseMode 3: causal to the bottom right", all_shapes(3)),
    "mode-4": ("sparseMode 4: band to the bottom right", all_shapes(4, pre=2, next=1)),
    "mode-5": ("sparseMode 5: the mask, and mode 3 with a prefix", with_masks(5, (3, 4, 2))),
    "mode-6": ("sparseMode 6: mode 3 with a prefix",
               [panel(6, shape, prefix=prefix) for shape, prefix in zip(SHAPES, (3, 4, 2))]),
    "mode-7": ("sparseMode 7: the last sequence is the beginning of a longer one", MODE_7),
    "mode-8": ("sparseMode 8: the first sequence is the end of a longer one", MODE_8),
    "window": ("A window of W = 3 tokens that ends with the token itself: sparseMode 4", [
        panel(4, (6, 6), "correct: W keys", pre=2, next=0),
        panel(4, (6, 6), "wrong: one key too many", pre=3, next=0),
        panel(4, (6, 6), "wrong: sees the next token", pre=2, next=1),
    ]),
    "window-origin": ("The same window, preTokens 2 and nextTokens 0, in two modes", [
        panel(mode, shape, f"sparseMode {mode}", pre=2, next=0) for shape in SHAPES[1:] for mode in (4, 0)
    ]),
    "window-negative": ("Negative numbers move an edge across the diagonal", [
        panel(4, (4, 6), "sparseMode 4", pre=3, next=-1),
        panel(4, (4, 6), "sparseMode 4", pre=-1, next=2),
        panel(0, (4, 6), "sparseMode 0", pre=2, next=-1),
    ]),
}
