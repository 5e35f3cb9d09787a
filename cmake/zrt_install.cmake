# `cmake --install`: bin/zrt, the libraries, the headers below include/zrt so that "models/model.h" is found there as it
# is in the source tree, and lib/cmake/zrt for find_package(zrt). Nothing in it depends on where it is put.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(zrt_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/zrt)

install(TARGETS zrt RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
get_property(zrt_folders GLOBAL PROPERTY ZRT_FOLDERS)
list(REMOVE_ITEM zrt_folders zrt_tools)
install(TARGETS ${zrt_folders} EXPORT zrtTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(folder core comm offload models optimizer runtime)
  if(IS_DIRECTORY ${CMAKE_SOURCE_DIR}/${folder})
    install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/zrt FILES_MATCHING PATTERN "*.h")
  endif()
endforeach()

configure_package_config_file(cmake/zrtConfig.cmake.in ${CMAKE_BINARY_DIR}/zrtConfig.cmake
                              INSTALL_DESTINATION ${zrt_cmake_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/zrtConfigVersion.cmake COMPATIBILITY SameMinorVersion)
file(GLOB zrt_find_modules ${CMAKE_SOURCE_DIR}/cmake/Find*.cmake)
install(FILES ${CMAKE_BINARY_DIR}/zrtConfig.cmake ${CMAKE_BINARY_DIR}/zrtConfigVersion.cmake ${zrt_find_modules}
        DESTINATION ${zrt_cmake_dir})
install(EXPORT zrtTargets NAMESPACE zrt:: DESTINATION ${zrt_cmake_dir})

# Clusters by name; programs in the build folder find them there.
file(GLOB zrt_clusters CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/share/clusters/*.json)
install(FILES ${zrt_clusters} DESTINATION ${CMAKE_INSTALL_DATADIR}/zrt/clusters)
foreach(cluster ${zrt_clusters})
  get_filename_component(file ${cluster} NAME)
  configure_file(${cluster} ${CMAKE_BINARY_DIR}/share/zrt/clusters/${file} COPYONLY)
endforeach()
