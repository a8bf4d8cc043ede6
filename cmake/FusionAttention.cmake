# What every component shares: version, language level, warnings, sanitizers, and how a library of the stack is made.
# Included once by whichever CMakeLists.txt is configured first; the others inherit everything from there.
include_guard(GLOBAL)
include(GNUInstallDirs)

set(FUSION_VERSION 0.1.0)       # this project
set(FUSION_CANN_VERSION 8.5.0)  # the release of the vendor's toolkit whose interface the headers follow
get_filename_component(FUSION_ROOT ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)

# The vendor's tree puts libraries into lib64 on every distribution.
set(CMAKE_INSTALL_LIBDIR lib64)
# Not below lib64: find_package does not look there on Debian.
set(FUSION_PACKAGE_DIR share/cmake/FusionAttention)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type: Release (default), Debug or RelWithDebInfo" FORCE)
endif()
option(ENABLE_UNIT_TEST "Build the unit tests (needs GoogleTest)" OFF)
set(FUSION_SANITIZE "" CACHE STRING "Sanitizers for all code, as in -fsanitize=: address,undefined or thread")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

option(FUSION_WERROR "Warnings are errors, with the compilers that the project is tested with" OFF)

add_compile_options(-Wall -Wextra -Wno-unused-parameter $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
if(FUSION_WERROR AND "${CMAKE_CXX_COMPILER_ID}-${CMAKE_CXX_COMPILER_VERSION}" MATCHES "^(GNU-12|Clang-14)\\.")
  add_compile_options(-Werror)
endif()
# No path of the build machine inside the binaries; debug information keeps the real paths.
add_compile_options(-fmacro-prefix-map=${FUSION_ROOT}/=)
if(FUSION_SANITIZE)
  # C callers may pass any number as an enumerator; reading it is what the checks are for.
  add_compile_options(-fsanitize=${FUSION_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -fno-sanitize=enum)
  add_link_options(-fsanitize=${FUSION_SANITIZE})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A unique symbol would be shared between two copies of a library in one process; clang never emits them.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fno-gnu-unique>)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    add_compile_options(-Wno-restrict)  # g++ 12 sees overlaps in "a" + std::string that cannot be
  endif()
endif()

find_package(Threads REQUIRED)

# fmt is used from its headers and in .cpp files alone, so that nothing we install needs it. Of fmt 9, whose parts that
# are not templates are known, these are compiled once (cmake/fmt.cpp); other versions are compiled in every file.
find_path(FUSION_FMT_INCLUDE_DIR fmt/format.h)
if(NOT FUSION_FMT_INCLUDE_DIR)
  message(FATAL_ERROR "fmt/format.h was not found: install libfmt-dev")
endif()
option(FUSION_FMT_ONCE "Compile the fixed parts of fmt 9 once" ON)
file(STRINGS ${FUSION_FMT_INCLUDE_DIR}/fmt/core.h fmt_version REGEX "^#define FMT_VERSION 9")
if(FUSION_FMT_ONCE AND fmt_version)
  add_library(fusion_fmt STATIC ${FUSION_ROOT}/cmake/fmt.cpp)
  target_include_directories(fusion_fmt SYSTEM PUBLIC ${FUSION_FMT_INCLUDE_DIR})
else()
  add_library(fusion_fmt INTERFACE)
  target_include_directories(fusion_fmt SYSTEM INTERFACE ${FUSION_FMT_INCLUDE_DIR})
  target_compile_definitions(fusion_fmt INTERFACE FMT_HEADER_ONLY=1)
endif()

# The time of a test is spent in the libraries and the judge, which have flags of their own; -O3 would only double the
# time to compile it.
function(fusion_test_options target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(FUSION_SANITIZE)
    target_compile_definitions(${target} PRIVATE FUSION_SANITIZED)  # for tests of time and memory, which mean nothing then
  endif()
endfunction()

if(ENABLE_UNIT_TEST)
  enable_testing()
  set(FUSION_GTEST_SOURCE_DIR "" CACHE PATH "Sources of GoogleTest to build it from; empty: it is installed")
  if(FUSION_GTEST_SOURCE_DIR)
    set(BUILD_GMOCK OFF)
    set(INSTALL_GTEST OFF)
    add_subdirectory(${FUSION_GTEST_SOURCE_DIR} ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
  else()
    find_package(GTest)
    if(NOT GTest_FOUND)
      message(FATAL_ERROR "GoogleTest was not found: install libgtest-dev, or configure with -DENABLE_UNIT_TEST=OFF")
    endif()
  endif()
  include(GoogleTest)

  # What nearly every test begins with, parsed once for all of them: half of the compile time of a short test. (Debug and
  # clang builds may go without, by CMAKE_DISABLE_PRECOMPILE_HEADERS: then each file needs its own includes.)
  add_executable(fusion_test_headers EXCLUDE_FROM_ALL ${FUSION_ROOT}/cmake/test_headers.cpp)
  target_link_libraries(fusion_test_headers PRIVATE fusion_fmt GTest::gtest Threads::Threads)
  fusion_test_options(fusion_test_headers)
  target_precompile_headers(fusion_test_headers PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:<fmt/format.h$<ANGLE-R>>" "$<$<COMPILE_LANGUAGE:CXX>:<gtest/gtest.h$<ANGLE-R>>"
    "$<$<COMPILE_LANGUAGE:CXX>:<algorithm$<ANGLE-R>>" "$<$<COMPILE_LANGUAGE:CXX>:<functional$<ANGLE-R>>"
    "$<$<COMPILE_LANGUAGE:CXX>:<iostream$<ANGLE-R>>" "$<$<COMPILE_LANGUAGE:CXX>:<random$<ANGLE-R>>"
    "$<$<COMPILE_LANGUAGE:CXX>:<thread$<ANGLE-R>>")
endif()

# Everything that is installed, without the tests: what a user of the libraries has to build.
add_custom_target(fusion_libraries)

# fusion_version_script(<target> <exports file> <namespace>)
# The exports file lists the public C names, one a line ('#' starts a comment). They and the C++ namespace for calls
# between our own libraries are all that the library shows; the exports test compares the same file with nm.
function(fusion_version_script target exports namespace)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${exports})
  file(STRINGS ${exports} lines)
  set(names "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "#.*" "" line "${line}")
    string(STRIP "${line}" line)
    if(line)
      string(APPEND names "    ${line};\n")
    endif()
  endforeach()
  if(namespace)
    # The ? stand for blanks: a quoted pattern would be taken literally, without its *.
    string(APPEND names "    extern \"C++\" { ${namespace}::*; typeinfo?for?${namespace}::*;"
           " typeinfo?name?for?${namespace}::*; vtable?for?${namespace}::*; };\n")
  endif()
  if(names)
    set(names "  global:\n${names}")
  endif()
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${target}.map)
  file(CONFIGURE OUTPUT ${script} CONTENT "{\n${names}  local: *;\n};\n" @ONLY)
  target_link_options(${target} PRIVATE -Wl,--version-script=${script})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script})
endfunction()

# fusion_library(<target> OUTPUT <name> EXPORTS <file> [NAMESPACE <ns>] SOURCES ... )
# One shared library of the stack: SONAME = file name, neighbours found through $ORIGIN, nothing exported by accident.
# Each library has an export set of its own, so that components that are installed one after another into the same
# prefix add to its CMake package instead of overwriting it.
function(fusion_library target)
  cmake_parse_arguments(ARG "" "OUTPUT;EXPORTS;NAMESPACE" "SOURCES" ${ARGN})
  add_library(${target} SHARED ${ARG_SOURCES})
  add_library(FusionAttention::${target} ALIAS ${target})
  add_dependencies(fusion_libraries ${target})
  get_property(outside GLOBAL PROPERTY FUSION_OUTSIDE_LIBRARY_DIRS)
  set(run_path $ORIGIN ${outside})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${ARG_OUTPUT} INSTALL_RPATH "${run_path}")
  # Worker threads, fork handlers, thread-exit handlers and executors run our code for as long as they live: dlclose
  # must not unmap it.
  target_link_options(${target} PRIVATE -Wl,--enable-new-dtags -Wl,-z,nodelete)
  if(NOT FUSION_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)  # sanitizer runtimes resolve at load time
  endif()
  target_link_libraries(${target} PRIVATE fusion_fmt Threads::Threads)
  fusion_version_script(${target} ${ARG_EXPORTS} "${ARG_NAMESPACE}")
  install(TARGETS ${target} EXPORT FusionAttention-${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT FusionAttention-${target} NAMESPACE FusionAttention:: DESTINATION ${FUSION_PACKAGE_DIR})
endfunction()

# fusion_library_links(<target> <other file names ...>): more names for one library, in the build tree and installed.
function(fusion_library_links target)
  foreach(name IN LISTS ARGN)
    add_custom_command(TARGET ${target} POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE_NAME:${target}> ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${name})
    install(FILES ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${name} DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endforeach()
endfunction()

# fusion_test(<name> SOURCES ... LIBRARIES ... [LABELS ...]): one GoogleTest binary, its cases listed to ctest one by
# one as <name>.<suite>.<case>. The label "slow" keeps a test out of the sanitizer runs.
function(fusion_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} fusion_fmt GTest::gtest_main Threads::Threads)
  fusion_test_options(${name})
  target_precompile_headers(${name} REUSE_FROM fusion_test_headers)
  set(c_sources ${ARG_SOURCES})
  list(FILTER c_sources INCLUDE REGEX "\\.c$")
  set_source_files_properties(${c_sources} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  set(properties TIMEOUT 300)
  if(ARG_LABELS)
    list(APPEND properties LABELS "${ARG_LABELS}")
  endif()
  if(FUSION_SANITIZE MATCHES "thread")
    # It waits at the end of each program for threads that are still at work: a second by default.
    list(APPEND properties ENVIRONMENT_MODIFICATION "TSAN_OPTIONS=path_list_append:atexit_sleep_ms=50")
  endif()
  gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60 PROPERTIES ${properties})
endfunction()

include(${CMAKE_CURRENT_LIST_DIR}/FusionComponents.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/FusionPackage.cmake)
