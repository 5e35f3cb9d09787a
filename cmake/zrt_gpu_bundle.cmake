# The target gpu_bundle: zrt, the tests that zrt_test() names for a GPU and all they need in one folder below 60 MiB,
# build/<preset>/gpu_bundle, that runs on another machine by its run.sh (docs/gpu.md).
get_property(zrt_gpu_tests GLOBAL PROPERTY ZRT_GPU_TESTS)
set(zrt_gpu_programs zrt)
foreach(entry ${zrt_gpu_tests})
  string(REGEX REPLACE "^.*:(.*)/.*$" "test_\\1" program ${entry})
  list(APPEND zrt_gpu_programs ${program})
endforeach()
list(REMOVE_DUPLICATES zrt_gpu_programs)
add_custom_target(gpu_bundle
  COMMAND ${CMAKE_SOURCE_DIR}/tools/gpu/pack.sh ${CMAKE_BINARY_DIR} ${CMAKE_BINARY_DIR}/gpu_bundle ${zrt_gpu_tests}
  DEPENDS ${zrt_gpu_programs}
  COMMENT "Packing the GPU bundle"
  VERBATIM)
