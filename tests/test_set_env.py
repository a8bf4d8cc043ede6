"""set_env.sh in the shells that it promises to work in. The tree has been moved, and its path has a blank."""

import shutil

import pytest


@pytest.fixture(params=["bash", "zsh"])
def shell(request):
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


def environment(run, shell, prefix, commands='source "$0"', **variables):
    """What the environment is after `commands`, as a dictionary. All runs under the strictest settings of scripts."""
    done = run(shell, "-c", f"set -eu; {commands}; env -0", prefix / "set_env.sh", env=variables)
    assert done.stderr == ""
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)


def test_paths_point_to_where_the_script_is(run, shell, moved_prefix):
    found = environment(run, shell, moved_prefix)
    assert found["ASCEND_HOME_PATH"] == str(moved_prefix)
    assert found["ASCEND_OPP_PATH"] == f"{moved_prefix}/opp"
    assert found["LD_LIBRARY_PATH"] == f"{moved_prefix}/lib64"
    assert found["CMAKE_PREFIX_PATH"] == str(moved_prefix)
    assert found["PKG_CONFIG_PATH"] == f"{moved_prefix}/lib64/pkgconfig"
    assert found["PYTHONPATH"] == f"{moved_prefix}/python"


def test_relative_source(run, shell, moved_prefix):
    found = environment(run, shell, moved_prefix, f'cd "{moved_prefix}"/..; source "{moved_prefix.name}/set_env.sh"')
    assert found["ASCEND_HOME_PATH"] == str(moved_prefix)


def test_user_paths_stay_behind_ours(run, shell, moved_prefix):
    found = environment(run, shell, moved_prefix, LD_LIBRARY_PATH="/first:/second dir", CMAKE_PREFIX_PATH="/third")
    assert found["LD_LIBRARY_PATH"] == f"{moved_prefix}/lib64:/first:/second dir"
    assert found["CMAKE_PREFIX_PATH"] == f"{moved_prefix}:/third"


def test_sourcing_twice_changes_nothing(run, shell, moved_prefix):
    once = environment(run, shell, moved_prefix, LD_LIBRARY_PATH="/first")
    twice = environment(run, shell, moved_prefix, 'source "$0"; source "$0"', LD_LIBRARY_PATH="/first")
    assert {name: value for name, value in twice.items() if name != "_"} == \
           {name: value for name, value in once.items() if name != "_"}


def test_ours_comes_first_again(run, shell, moved_prefix):
    path = f"/first:{moved_prefix}/lib64:/second"
    assert environment(run, shell, moved_prefix, LD_LIBRARY_PATH=path)["LD_LIBRARY_PATH"] == \
        f"{moved_prefix}/lib64:/first:/second"


def test_task_queue_default_and_choice(run, shell, moved_prefix):
    assert environment(run, shell, moved_prefix)["TASK_QUEUE_ENABLE"] == "0"
    assert environment(run, shell, moved_prefix, TASK_QUEUE_ENABLE="2")["TASK_QUEUE_ENABLE"] == "2"


def test_leaves_no_helpers_behind(run, shell, moved_prefix):
    done = run(shell, "-c", 'source "$0"; set; typeset -f', moved_prefix / "set_env.sh")
    names = [line for line in done.stdout.splitlines() if line.startswith("_fusion")]
    assert names == []


def test_other_shells_are_told(run, moved_prefix):
    if shutil.which("dash") is None:
        pytest.skip("dash is not installed")
    done = run("dash", "-c", '. "$0"', moved_prefix / "set_env.sh", code=1)
    assert "bash and zsh" in done.stderr
