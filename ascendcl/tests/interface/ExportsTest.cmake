# fusion_exports_test(<name> <target>=<exports file>=<namespace> ...)
# A test that the libraries show what their exports files list and no symbol twice. File and namespace may be empty.
# Sanitizers add symbols of their own, so there is no such test in a sanitized build.
include_guard(GLOBAL)

function(fusion_exports_test name)
  if(FUSION_SANITIZE)
    return()
  endif()
  find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)
  set(entries "")
  foreach(entry IN LISTS ARGN)
    string(FIND "${entry}" "=" target_end)
    string(SUBSTRING "${entry}" 0 ${target_end} target)
    string(SUBSTRING "${entry}" ${target_end} -1 rest)
    list(APPEND entries "$<TARGET_FILE:${target}>${rest}")
  endforeach()
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/check_exports.py --nm ${CMAKE_NM} ${entries})
endfunction()
