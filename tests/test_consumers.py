"""A user's programs against the installed tree after it was moved: with g++ alone, with CMake, with pkg-config."""

import re
import shutil

import pytest

EXAMPLE = "cann-learning-hub/examples/flash_attention_varlen"
AGREES = "The operator agrees with the double-precision computation."


@pytest.fixture
def example(run, tmp_path):
    """A copy of the example's folder, so that its commands leave nothing in the repository."""
    return shutil.copytree(run.ROOT / EXAMPLE, tmp_path / "example")


def shell_blocks(readme):
    return re.findall(r"```sh\n(.*?)```", readme.read_text(), re.DOTALL)


@pytest.mark.parametrize("block", [0, 1], ids=["g++", "cmake"])
def test_commands_of_the_example(run, moved_prefix, example, block):
    """The commands are taken from the example's README as they stand there."""
    commands = shell_blocks(example / "README.md")[block]
    assert "source <prefix>/set_env.sh" in commands
    commands = commands.replace("<prefix>", f"'{moved_prefix}'").replace("$ASCEND_HOME_PATH", '"$ASCEND_HOME_PATH"')
    done = run("bash", "-c", f"set -e\n{commands}", cwd=example)
    assert AGREES in done.stdout


def test_pkg_config(run, moved_prefix, example):
    done = run.sourced(moved_prefix, "pkg-config --cflags --libs fusion_attention")
    for flag in ("-lascendcl", "-lnnopbase", "-lopapi"):
        assert flag in done.stdout
    # Blanks in the flags are escaped for a shell; eval reads them the way make does.
    done = run.sourced(moved_prefix, "eval g++ -std=c++17 main.cpp -o program $(pkg-config --cflags --libs fusion_attention);"
                       "./program", cwd=example)
    assert AGREES in done.stdout


def test_vendor_style_command_line(run, moved_prefix, example):
    """Three include folders, and the operators split over two libraries as in newer releases of the toolkit."""
    source = example / "main.cpp"
    source.write_text(source.read_text().replace('"aclnnop/aclnn_flash', '"aclnn_flash'))
    include = " ".join(f'"-I$ASCEND_HOME_PATH/include{folder}"' for folder in ("", "/aclnn", "/aclnnop"))
    done = run.sourced(moved_prefix, f'g++ -std=c++17 {include} main.cpp -o program "-L$ASCEND_HOME_PATH/lib64" '
                       "-lopapi_transformer -lopapi_math -lnnopbase -lascendcl; ./program", cwd=example)
    assert AGREES in done.stdout


def test_c_program(run, moved_prefix, tmp_path):
    """The runtime is usable from C99."""
    (tmp_path / "program.c").write_text("""
        #include <stdio.h>
        #include <acl/acl.h>
        int main(void) {
            uint32_t count = 0;
            int code = aclInit(0);
            if (code == 0) code = aclrtGetDeviceCount(&count);
            if (code == 0) code = aclFinalize();
            printf("%u %s\\n", count, aclrtGetSocName());
            return code;
        }
    """)
    done = run.sourced(moved_prefix, 'gcc -std=c99 -Wall -Werror "-I$ASCEND_HOME_PATH/include" program.c -o program '
                       '"-L$ASCEND_HOME_PATH/lib64" -lascendcl; ./program', cwd=tmp_path)
    assert done.stdout == "1 Ascend910B2\n"


def test_cmake_component_that_is_missing(run, prefix, tmp_path):
    """Asking for a component that does not exist is refused by find_package, not by the linker."""
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.22)\nproject(consumer CXX)\n"
                                             "find_package(FusionAttention REQUIRED COMPONENTS opapi engine)\n")
    done = run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}", code=1)
    assert "holds no component engine; it holds: ascendcl nnopbase opapi" in " ".join(done.stderr.split())


def test_readable_error(run, moved_prefix, example):
    """A wrong argument ends the example with the library's explanation."""
    source = example / "main.cpp"
    changed = source.read_text().replace("/*keepProb=*/1.0", "/*keepProb=*/1.5")
    assert changed != source.read_text()
    source.write_text(changed)
    run.sourced(moved_prefix, 'g++ -std=c++17 "-I$ASCEND_HOME_PATH/include" main.cpp -o program '
                '"-L$ASCEND_HOME_PATH/lib64" -lopapi -lnnopbase -lascendcl', cwd=example)
    done = run.sourced(moved_prefix, "./program", cwd=example, code=2)
    assert "161002" in done.stderr and "keepProb" in done.stderr and "1.5" in done.stderr
