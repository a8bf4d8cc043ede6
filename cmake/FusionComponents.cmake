# How a component that is configured alone finds the ones it builds on. In the tree of the top CMakeLists.txt their
# targets exist already and both functions return at once.
include_guard(GLOBAL)

set(FUSION_DEFAULT_CANN_PATH /usr/local/Ascend)

# A path as the user meant it: shells leave the tilde of -DNAME=~/dir alone.
function(fusion_user_path variable)
  if(${variable})
    file(REAL_PATH "${${variable}}" path BASE_DIRECTORY ${CMAKE_BINARY_DIR} EXPAND_TILDE)
    set(${variable} ${path} PARENT_SCOPE)
  endif()
endfunction()

# One of our libraries in an installed tree as an imported target. `option` is what the user set to lead us there.
function(fusion_import_library target file prefix option)
  set(library ${prefix}/${CMAKE_INSTALL_LIBDIR}/${file})
  if(NOT EXISTS ${library})
    message(FATAL_ERROR " ${option} leads to ${prefix}, which has the headers of ${target} but not\n"
            " ${library}\n Build and install it again into that folder.")
  endif()
  add_library(FusionAttention::${target} SHARED IMPORTED GLOBAL)
  set_target_properties(FusionAttention::${target} PROPERTIES
    IMPORTED_LOCATION ${library} INTERFACE_INCLUDE_DIRECTORIES ${prefix}/include)
  # Libraries that stay in another prefix than ours are not found through $ORIGIN.
  get_filename_component(own_prefix "${CMAKE_INSTALL_PREFIX}" REALPATH)
  if(NOT prefix STREQUAL own_prefix)
    set_property(GLOBAL APPEND PROPERTY FUSION_OUTSIDE_LIBRARY_DIRS ${prefix}/${CMAKE_INSTALL_LIBDIR})
  endif()
endfunction()

# fusion_find_ascendcl([<prefix> <option>]): provides FusionAttention::ascendcl.
# In this order: ASCEND_CANN_PACKAGE_PATH when it is given (then it must be right), the prefix passed in, the default
# folder, and at last the ascendcl folder beside the component, which is then built and installed with it.
function(fusion_find_ascendcl)
  if(TARGET FusionAttention::ascendcl)
    return()
  endif()
  set(ASCEND_CANN_PACKAGE_PATH "" CACHE PATH
      "Where ascendcl is installed; empty: ${FUSION_DEFAULT_CANN_PATH}, else the ascendcl of this source tree")
  set(given ${ASCEND_CANN_PACKAGE_PATH})
  fusion_user_path(given)
  if(given)
    if(NOT EXISTS ${given}/include/acl/acl.h)
      message(FATAL_ERROR " Could not find ASCEND_CANN_PACKAGE_PATH: ${given}/include/acl/acl.h does not exist.\n"
              " Pass -DASCEND_CANN_PACKAGE_PATH=<dir> with the folder that holds include/acl/acl.h (the default is\n"
              " ${FUSION_DEFAULT_CANN_PATH}), or leave the option out: then the ascendcl of this source tree is used.")
    endif()
    if(NOT EXISTS ${given}/include/ascendcl/api.h)
      message(FATAL_ERROR " ASCEND_CANN_PACKAGE_PATH: ${given} holds no include/ascendcl/api.h. It seems to be another\n"
              " implementation of AscendCL; opbase builds on this project's ascendcl. Pass the prefix that ascendcl of\n"
              " this source tree was installed to, or leave the option out: then it is built along.")
    endif()
    fusion_import_library(ascendcl libascendcl.so ${given} ASCEND_CANN_PACKAGE_PATH)
    return()
  endif()
  if(ARGC EQUAL 2 AND EXISTS ${ARGV0}/include/ascendcl/api.h)
    fusion_import_library(ascendcl libascendcl.so ${ARGV0} ${ARGV1})
  elseif(EXISTS ${FUSION_DEFAULT_CANN_PATH}/include/ascendcl/api.h)
    fusion_import_library(ascendcl libascendcl.so ${FUSION_DEFAULT_CANN_PATH} "The default of ASCEND_CANN_PACKAGE_PATH")
  elseif(ARGC EQUAL 2)
    # A second runtime beside the one that opbase was built on would be one too many in a process.
    message(FATAL_ERROR " Could not find ASCEND_CANN_PACKAGE_PATH: neither ${FUSION_DEFAULT_CANN_PATH} (the default) nor\n"
            " ${ARGV0} holds ascendcl.\n Pass -DASCEND_CANN_PACKAGE_PATH=<dir> with the folder that opbase was built on.")
  else()
    message(STATUS "ascendcl: neither ASCEND_CANN_PACKAGE_PATH nor an installation in ${FUSION_DEFAULT_CANN_PATH}; "
            "building the one of this source tree along")
    add_subdirectory(${FUSION_ROOT}/ascendcl ${CMAKE_BINARY_DIR}/ascendcl)
  endif()
endfunction()

# fusion_find_opbase(): provides FusionAttention::nnopbase and what it builds on. OPBASE_INSTALL_PATH has no default.
function(fusion_find_opbase)
  if(TARGET FusionAttention::nnopbase)
    return()
  endif()
  set(OPBASE_INSTALL_PATH "" CACHE PATH "The CMAKE_INSTALL_PREFIX that opbase was installed to (required)")
  set(prefix ${OPBASE_INSTALL_PATH})
  fusion_user_path(prefix)
  if(NOT prefix OR NOT EXISTS ${prefix}/include/opbase/op_base.h)
    set(shown "${prefix}")
    if(NOT prefix)
      set(shown "<dir>")
    endif()
    message(FATAL_ERROR " OPBASE_INSTALL_PATH is not set or ${shown}/include/opbase/op_base.h does not exist;"
            " build and install opbase first\n Then pass -DOPBASE_INSTALL_PATH=<the CMAKE_INSTALL_PREFIX of opbase>.")
  endif()
  fusion_find_ascendcl(${prefix} OPBASE_INSTALL_PATH)
  fusion_import_library(nnopbase libnnopbase.so ${prefix} OPBASE_INSTALL_PATH)
  set_property(TARGET FusionAttention::nnopbase PROPERTY INTERFACE_LINK_LIBRARIES FusionAttention::ascendcl)
  # The aclnn headers are also included without their folder.
  set_property(TARGET FusionAttention::nnopbase APPEND PROPERTY INTERFACE_INCLUDE_DIRECTORIES ${prefix}/include/aclnn)
endfunction()
