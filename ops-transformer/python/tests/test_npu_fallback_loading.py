"""The kernels load by themselves, once, whoever imports torch_npu."""
import pytest

SUM = 'print((torch.ones(3, device="npu") + 1).sum().item())'


@pytest.mark.parametrize("imports", ["import torch", "import torch_npu, torch", "import torch, torch_npu",
                                     "import importlib.util; importlib.util.find_spec('torch_npu'); import torch"])
def test_loads_by_itself_and_silently(run_python, imports):
    process = run_python(f"{imports}\n{SUM}")
    assert (process.stdout.split()[-1], process.stderr) == ("6.0", "")


def test_without_autoload(run_python):
    process = run_python(f"import torch, sys; assert 'torch_npu' not in sys.modules\nimport torch_npu\n{SUM}",
                         TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert process.stdout.split()[-1] == "6.0"


def test_nothing_is_imported_before_it_is_needed(run_python):
    process = run_python("import sys; print('torch' in sys.modules, 'npu_fallback.import_hook' in sys.modules)")
    assert process.stdout.split() == ["False", "True"]


def test_the_module_keeps_its_own_loader(run_python):
    run_python("""
        import torch_npu, importlib.resources
        assert type(torch_npu.__spec__.loader).__name__ == "SourceFileLoader"
        assert "exec_module" not in vars(torch_npu.__spec__.loader)
        assert importlib.resources.files("torch_npu").joinpath("version.py").is_file()
    """)


@pytest.mark.parametrize("other_first", [True, False], ids=["other finder before", "other finder behind"])
def test_lives_with_another_finder_of_its_kind(run_python, other_first):
    """A package that also has something to do behind torch_npu: both are called, once, and the loader is as it was."""
    process = run_python(f"""
        import sys

        class Other:
            def find_spec(self, name, path=None, target=None):
                if name != "torch_npu":
                    return None
                behind = sys.meta_path[sys.meta_path.index(self) + 1:]
                spec = next(filter(None, (finder.find_spec(name, path, target) for finder in behind)))
                loader, before = spec.loader, vars(spec.loader).get("exec_module")
                def exec_module(module):
                    loader.exec_module = before
                    if before is None:
                        del loader.exec_module
                    loader.exec_module(module)
                    print("other", hasattr(module, "npu"))
                loader.exec_module = exec_module
                return spec

        sys.meta_path.insert(0 if {other_first} else 1, Other())
        import torch, torch_npu
        assert "exec_module" not in vars(torch_npu.__spec__.loader)
        {SUM}
    """)
    assert process.stdout.split()[-3:] == ["other", "True", "6.0"] and process.stdout.count("other") == 1


def test_child_processes(run_python, tmp_path):
    script = tmp_path / "children.py"
    script.write_text("import multiprocessing, torch\n"
                      "def work(n):\n    return (torch.ones(n, device='npu') + 1).sum().item()\n"
                      "if __name__ == '__main__':\n"
                      "    for method in ('fork', 'spawn', 'forkserver'):\n"
                      "        with multiprocessing.get_context(method).Pool(1) as pool:\n"
                      "            print(pool.map(work, [1, 2]))\n")
    process = run_python(f"import subprocess, sys; subprocess.run([sys.executable, {str(script)!r}], check=True)")
    assert process.stdout.splitlines()[-3:] == ["[2.0, 4.0]"] * 3
