# Libraries that PyTorch loads. Built when the chosen Python has torch; torch is not ours to find in the usual way, because
# its own CMake package asks for compilers and libraries that only building torch needs.
include_guard(GLOBAL)

if(CMAKE_CROSSCOMPILING OR FUSION_SANITIZE)
  set(FUSION_HAS_TORCH OFF)  # torch is built for this machine, and without sanitizers
  return()
endif()
find_package(Python3 COMPONENTS Interpreter)
set(FUSION_PYTHON "${Python3_EXECUTABLE}" CACHE FILEPATH "Interpreter whose torch the Python packages are built for")

# torch would load torch-npu, and with it our libraries, which are not built yet.
set(ask "import torch, torch.utils.cpp_extension as e
print(torch.__version__, *e.include_paths(), sep=';', end='')
print('|', *e.library_paths(), sep=';', end='')
print('|', int(torch._C._GLIBCXX_USE_CXX11_ABI), sep='', end='')")
execute_process(COMMAND ${CMAKE_COMMAND} -E env TORCH_DEVICE_BACKEND_AUTOLOAD=0 ${FUSION_PYTHON} -c "${ask}"
                RESULT_VARIABLE failed OUTPUT_VARIABLE answer ERROR_QUIET)
if(failed OR NOT answer MATCHES "^([^;]+);(.*)\\|;(.*)\\|([01])$")
  message(STATUS "No torch for ${FUSION_PYTHON}: the Python packages are not built")
  set(FUSION_HAS_TORCH OFF)
  return()
endif()
set(FUSION_HAS_TORCH ON)
set(FUSION_TORCH_VERSION ${CMAKE_MATCH_1})
set(FUSION_TORCH_INCLUDES ${CMAKE_MATCH_2})
set(FUSION_TORCH_LIBRARIES ${CMAKE_MATCH_3})
set(FUSION_TORCH_ABI ${CMAKE_MATCH_4})
message(STATUS "Python packages: for torch ${FUSION_TORCH_VERSION}")

# fusion_torch_library(<target> SOURCES ...)
function(fusion_torch_library target)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  add_library(${target} SHARED ${ARG_SOURCES})
  add_dependencies(fusion_libraries ${target})
  target_include_directories(${target} SYSTEM PRIVATE ${FUSION_TORCH_INCLUDES})
  target_compile_definitions(${target} PRIVATE _GLIBCXX_USE_CXX11_ABI=${FUSION_TORCH_ABI})
  # PyTorch's classes cross the border of the library: their type information has to stay visible.
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET default VISIBILITY_INLINES_HIDDEN OFF)
  # The process has loaded torch already, wherever it lies: no run path leads there.
  foreach(name torch_cpu c10)
    find_library(FUSION_TORCH_${name} ${name} PATHS ${FUSION_TORCH_LIBRARIES} NO_DEFAULT_PATH REQUIRED)
    target_link_libraries(${target} PRIVATE ${FUSION_TORCH_${name}})
  endforeach()
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
  # Parsed once instead of in every file, which is most of the time that a file takes.
  target_precompile_headers(${target} PRIVATE <ATen/core/Tensor.h> <ATen/core/dispatch/Dispatcher.h> <torch/library.h>)
endfunction()
