"""Times flash_attention beside PyTorch's scaled_dot_product_attention, in turns, in this process. Both get the same tensors, and
their results are compared first. GFLOP/s count the products of visible pairs only: 4 D operations for each query and key that it
sees, in each head; with --backward, which times forward and backward together, 14 D. "of mm" is that speed beside the one of
PyTorch's product of two float32 matrices. Times are the best of all rounds and, in brackets, their median; "faster" is the
median of what each round gave."""
import argparse
import contextlib
import json
import math
import os

from ops_transformer.tools import Fault, WrongArguments, measure, screen
from ops_transformer.tools.measure import TYPES, Case

HELP = "time flash_attention side by side with PyTorch"
PRODUCT = "mm"
_MOST_THREADS = 1024  # as many are made as are asked for; with 100000 the process crashed


def numbers(text):
    try:
        values = [int(word) for word in text.split(",")]
    except ValueError:
        values = [0]
    if min(values) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} has to be numbers of at least 1, as in 512,1024")
    return values


def types(text):
    values = text.split(",")
    if not set(values) <= TYPES.keys():
        raise argparse.ArgumentTypeError(f"{text!r} has to be of {', '.join(TYPES)}, as in fp32,bf16")
    return values


def window(text):
    try:
        left, right = ((int(word) if word.strip() else None) for word in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} has to be LEFT,RIGHT, as in 255,0 or 255, without a limit") from None
    return left, right


def add_arguments(parser):
    parser.add_argument("--tokens", type=numbers, default=[512, 1024, 2048], metavar="S,S…",
                        help="numbers of queries, one case each; default 512,1024,2048")
    parser.add_argument("--keys", type=int, metavar="N", help="number of keys; default: as many as queries")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="default 1")
    parser.add_argument("--heads", type=int, default=8, metavar="N", help="query heads; default 8")
    parser.add_argument("--kv-heads", type=int, metavar="N", help="heads of key and value; default: as many as query heads")
    parser.add_argument("--head-dim", type=int, default=64, metavar="D", help="default 64")
    parser.add_argument("--dtype", type=types, default=["fp32"], metavar="TYPE,TYPE…", help="fp32, fp16, bf16; default fp32")
    parser.add_argument("--causal", action="store_true", help="the last query sees the last key")
    parser.add_argument("--window", type=window, metavar="LEFT,RIGHT",
                        help="keys that a query sees on either side of itself; an empty side has no limit, as in 255,0 or 255,")
    parser.add_argument("--backward", action="store_true", help="time forward and backward together")
    parser.add_argument("--threads", type=int, metavar="N", help="default: torch.get_num_threads()")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="of each case, at least; default 7")
    parser.add_argument("--seconds", type=float, default=1.0, metavar="T", help="for each case, at least; default 1")
    parser.add_argument("--json", metavar="FILE", help="write everything that was measured")
    parser.add_argument("--png", metavar="FILE", help="draw the speeds (needs matplotlib)")


def run(arguments):
    check_arguments(arguments)
    if arguments.png:
        from ops_transformer.tools import chart

        chart.check()
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # no npu takes part
    try:
        import torch
    except ImportError as error:
        raise Fault(f"bench needs torch: {error}") from None
    threads = arguments.threads or torch.get_num_threads()
    torch.set_num_threads(threads)
    cases = list(make_cases(arguments, threads))
    results = {"machine": measure.machine() | {"threads": threads}, "rows": []}
    with screen.progress(len(cases) * arguments.rounds, "rounds") as advance:
        for case in cases:
            results["rows"].append(compare(case, arguments.rounds, arguments.seconds, advance))
    show(results)
    if arguments.json:
        with written("--json", arguments.json), open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    if arguments.png:
        with written("--png", arguments.png):
            chart.speeds(results, arguments.png)
    return 0


@contextlib.contextmanager
def written(option, path):
    try:
        yield
    except OSError as error:
        raise WrongArguments(f"{option} {path}: {error.strerror or error}") from None


def check_arguments(arguments):
    at_least_one = {"--batch": arguments.batch, "--heads": arguments.heads, "--head-dim": arguments.head_dim,
                    "--kv-heads": arguments.kv_heads, "--keys": arguments.keys, "--threads": arguments.threads,
                    "--rounds": arguments.rounds}
    for name, value in at_least_one.items():
        if value is not None and value < 1:
            raise WrongArguments(f"{name} is {value}, but has to be at least 1")
    if (arguments.threads or 1) > _MOST_THREADS:
        raise WrongArguments(f"--threads is {arguments.threads}, but may be at most {_MOST_THREADS}")
    if not (math.isfinite(arguments.seconds) and arguments.seconds >= 0):
        raise WrongArguments(f"--seconds is {arguments.seconds}, but has to be a number of at least 0")
    if arguments.heads % (arguments.kv_heads or 1) != 0:
        raise WrongArguments(f"--heads is {arguments.heads}, but has to be a multiple of --kv-heads {arguments.kv_heads}")
    if arguments.causal and arguments.window and arguments.window[1] not in (None, 0):
        raise WrongArguments(f"--window has {arguments.window[1]} on the right, but with --causal it has to be empty or 0")


def make_cases(arguments, threads):
    for dtype in arguments.dtype:
        for tokens in arguments.tokens:
            yield Case(batch=arguments.batch, heads=arguments.heads, kv_heads=arguments.kv_heads or 0, queries=tokens,
                       keys=arguments.keys or tokens, head_dim=arguments.head_dim, dtype=dtype, causal=arguments.causal,
                       window=arguments.window, backward=arguments.backward, threads=threads)


def compare(case, rounds, seconds, advance=lambda: None):
    """One row of the results."""
    import torch

    from ops_transformer.tools import contenders

    tensors = contenders.Tensors(case)
    try:
        calls = {contenders.OURS: contenders.ours(case, tensors), contenders.PYTORCH: contenders.pytorch(case, tensors)}
        with torch.no_grad():
            expected, result = (call() for call in calls.values())
    except (TypeError, ValueError) as error:
        raise WrongArguments(str(error)) from None
    difference = contenders.check_alike(case, contenders.PYTORCH, expected, result)
    product, product_flops = contenders.matrix_product()
    runs = {name: contenders.timed(case, tensors, call) for name, call in calls.items()} | {PRODUCT: product}
    for warm in runs.values():
        warm()
    times = measure.by_turns(runs, rounds, seconds, advance=advance)
    return row(case, times, {contenders.PYTORCH: difference}, product_flops)


def row(case, times, differences, product_flops):
    """The form of every result: for each contender its times, and how many times slower than ours it is."""
    from ops_transformer.tools.contenders import OURS

    product = measure.summary(times.pop(PRODUCT), product_flops)
    made = {"case": {**vars(case), "mask": case.mask}, "flops": case.flops(), "mm_gflops": product["gflops"], "contenders": {}}
    for name, seconds in times.items():
        made["contenders"][name] = measure.summary(seconds, case.flops())
        if name in differences:
            made["contenders"][name] |= {"faster": measure.times_faster(times[OURS], seconds), "difference": differences[name]}
    return made


def show(results):
    from ops_transformer.tools.contenders import OURS, PYTORCH

    about = results["machine"]
    kernels = f", kernels {about['kernels']}" if about["kernels"] else ""
    case = results["rows"][0]["case"]
    title = (f"{about['processor']}{kernels}; torch {about['torch']}; {about['threads']} thread{'s' * (about['threads'] > 1)}; "
             f"batch {case['batch']}, heads {case['heads']}/{case['kv_heads']}, D {case['head_dim']}, {case['mask']}, "
             f"{'forward and backward' if case['backward'] else 'forward'}")
    rows = []
    for found in results["rows"]:
        mine, other = (found["contenders"][name] for name in (OURS, PYTORCH))
        rows.append([found["case"]["dtype"], found["case"]["queries"], found["case"]["keys"], milliseconds(mine),
                     f"{mine['gflops']:.1f}", f"{100 * mine['gflops'] / found['mm_gflops']:.0f} %", milliseconds(other),
                     f"{other['gflops']:.1f}", f"{other['faster']:.2f} x"])
    screen.table(["type", "S", "keys", "ours, ms", "GFLOP/s", "of mm", "SDPA, ms", "GFLOP/s", "faster"], rows, title,
                 right=range(1, 9))


def milliseconds(found):
    return f"{found['best_ms']:.3g} ({found['median_ms']:.3g})"
