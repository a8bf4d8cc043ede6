# The installed tree around the libraries: what the vendor's tree has, what torch-npu looks for, and the packages for
# CMake and pkg-config (which describe a prefix that all components are installed to). Each component installs the same
# files; all of them compute their own place, so that a prefix can be moved.
include_guard(GLOBAL)
include(CMakePackageConfigHelpers)

set(packaging ${FUSION_ROOT}/packaging)
set(generated ${CMAKE_BINARY_DIR}/packaging)

configure_file(${packaging}/version.info.in ${generated}/version.info @ONLY)
configure_file(${packaging}/fusion_attention.pc.in ${generated}/fusion_attention.pc @ONLY)
configure_package_config_file(${packaging}/FusionAttentionConfig.cmake.in ${generated}/FusionAttentionConfig.cmake
                              INSTALL_DESTINATION ${FUSION_PACKAGE_DIR}
                              NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${generated}/FusionAttentionConfigVersion.cmake
                                 VERSION ${FUSION_VERSION} COMPATIBILITY SameMinorVersion)

install(FILES ${packaging}/set_env.sh ${generated}/version.info DESTINATION .)
install(FILES ${FUSION_ROOT}/LICENSE DESTINATION .)
install(FILES ${generated}/FusionAttentionConfig.cmake ${generated}/FusionAttentionConfigVersion.cmake
        DESTINATION ${FUSION_PACKAGE_DIR})
install(FILES ${generated}/fusion_attention.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Importing torch-npu fails unless these folders exist; they hold nothing on a CPU.
foreach(folder runtime compiler opp)
  install(DIRECTORY DESTINATION ${folder})
endforeach()
