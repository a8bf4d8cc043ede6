# Cross compilation for 64-bit ARM with the Debian packages g++-aarch64-linux-gnu, qemu-user and googletest. Programs run
# under qemu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# Two libraries that are used from their headers alone, and nothing else of the build machine's /usr/include.
set(fusion_headers ${CMAKE_BINARY_DIR}/build_machine_headers)
file(MAKE_DIRECTORY ${fusion_headers})
foreach(folder fmt nlohmann)
  if(NOT EXISTS ${fusion_headers}/${folder})
    file(CREATE_LINK /usr/include/${folder} ${fusion_headers}/${folder} SYMBOLIC)
  endif()
endforeach()
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${fusion_headers})
set(FUSION_FMT_INCLUDE_DIR ${fusion_headers} CACHE PATH "")

# No GoogleTest is packaged for the target; its sources are.
set(FUSION_GTEST_SOURCE_DIR /usr/src/googletest CACHE PATH "")
