# Run after list_tables is built: writes the tests of each kernel table for ctest, so that a table that the machine lacks
# has no tests.
#
# cmake -DLIST_TABLES=<program> -DEMULATOR=<command> -DTESTS=<name>=<program>;... -DENVIRONMENT=<name>=<value>;...
#       -DWHICH=<OTHERS or a regular expression of names> -DOUTPUT=<file> -P ...
execute_process(COMMAND ${EMULATOR} ${LIST_TABLES}
  OUTPUT_VARIABLE tables OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  file(REMOVE ${OUTPUT})
  message(FATAL_ERROR "${LIST_TABLES} failed: ${code}")
endif()
string(REPLACE "\n" ";" tables "${tables}")
message(STATUS "Kernel tables of this machine: ${tables}")
if(WHICH STREQUAL "OTHERS")
  list(POP_FRONT tables)  # all tests run on the best one already
else()
  list(FILTER tables INCLUDE REGEX "${WHICH}")
endif()

set(text "")
foreach(table IN LISTS tables)
  foreach(test IN LISTS TESTS)
    string(REGEX MATCH "^([^=]+)=(.+)$" match "${test}")
    set(name ${table}.${CMAKE_MATCH_1})
    set(command "")
    foreach(part IN LISTS EMULATOR CMAKE_MATCH_2)  # as text: in a list, brackets would hold parts together
      string(APPEND command " [==[${part}]==]")
    endforeach()
    string(APPEND text "add_test([==[${name}]==]${command})\n"
           "set_tests_properties([==[${name}]==] PROPERTIES TIMEOUT 600 LABELS tables\n"
           "  ENVIRONMENT [==[ASCEND_CPU_ISA=${table};${ENVIRONMENT}]==])\n")
  endforeach()
endforeach()
file(WRITE ${OUTPUT} "${text}")
