"""A program that the checker starts: torch with its npu device, one operator, one attention call.

Prints one line: what it found, or the cause of the first failure (then its exit code is 1).
"""
import os
import sys


def main():
    import torch
    import torch_npu

    import npu_fallback
    from ops_transformer.home import library_path

    with open("/proc/self/maps", encoding="utf-8") as file:
        loaded = {line.split(maxsplit=5)[5].strip() for line in file if "/libascendcl.so" in line}
    wanted = os.path.realpath(library_path("libascendcl.so"))
    if {os.path.realpath(path) for path in loaded} != {wanted}:
        raise RuntimeError(f"torch_npu runs on {', '.join(sorted(loaded))}, not on {wanted}")
    if not torch.npu.is_available():
        raise RuntimeError("torch.npu.is_available() is False: does ASCEND_RT_VISIBLE_DEVICES leave a device?")
    ones = torch.ones(1, 2, 16, 64).npu()
    # An average of equal values is that value, up to the rounding of the sum of its weights.
    out = torch_npu.npu_fusion_attention(ones, ones, torch.full((1, 2, 16, 64), 3.0).npu(), 2, "BNSD", scale=0.125)[0].cpu()
    if not torch.allclose(out, torch.full_like(out, 3), rtol=1e-6):
        raise RuntimeError(f"attention over values that are all 3 gave numbers from {out.min()} to {out.max()}")
    if npu_fallback.is_wanted() and (torch.arange(4.0, device="npu") + 1).sum().item() != 10:
        raise RuntimeError("the sum over 1, 2, 3, 4 on the npu is not 10")
    print(f"{torch.npu.device_count()} device(s) {torch.npu.get_device_name()}, right results")


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # whatever it is, the checker shows it
        while error.__cause__ is not None:
            error = error.__cause__
        lines = str(error).splitlines() or ["no text"]
        # torch-npu says first where it was, and then appends our text.
        print(f"{type(error).__name__}: {' … '.join(dict.fromkeys([lines[0], lines[-1]]))}", flush=True)
        sys.exit(1)
