"""Where the torch_npu wheel lies, found without importing it (importing would load the libraries under test)."""
import importlib.util
import os
import pathlib
import sys

SKIPPED = 77  # what ctest takes for "skipped" (SKIP_RETURN_CODE)


def torch_npu_dir():
    """The package folder of torch_npu; ends the script as skipped when there is none.

    FUSION_TORCH_NPU_DIR names it (the folder that holds include/acl and lib); else it is looked up in this Python.
    """
    given = os.environ.get("FUSION_TORCH_NPU_DIR")
    if given:
        path = pathlib.Path(given)
        if not (path / "include/acl/acl.h").is_file():
            sys.exit(f"FUSION_TORCH_NPU_DIR is {path}, which holds no include/acl/acl.h")
        return path
    spec = importlib.util.find_spec("torch_npu")
    if spec is None or not spec.submodule_search_locations:
        print("skipped: no torch_npu wheel; set FUSION_TORCH_NPU_DIR to its package folder")
        sys.exit(SKIPPED)
    return pathlib.Path(next(iter(spec.submodule_search_locations)))
