# The target gpu_bundle: zrt, the tests that zrt_test() names for a GPU and all they need in one folder,
# build/<preset>/gpu_bundle, that runs on another machine by its run.sh or first_contact.sh (docs/gpu.md). The property
# ZRT_GPU_TESTS has an entry part|name|program|argument|… for each test; the manifest that the bundle carries is its lines.
get_property(zrt_gpu_tests GLOBAL PROPERTY ZRT_GPU_TESTS)
set(zrt_gpu_programs zrt)
foreach(entry ${zrt_gpu_tests})
  string(REPLACE "|" ";" entry "${entry}")
  list(GET entry 2 program)
  list(APPEND zrt_gpu_programs ${program})
endforeach()
list(REMOVE_DUPLICATES zrt_gpu_programs)
list(JOIN zrt_gpu_tests "\n" zrt_gpu_lines)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/gpu_tests.txt CONTENT "@zrt_gpu_lines@\n" @ONLY)
# What writes down a program's kernels, where the toolkit has CUPTI.
if(TARGET CUDA::cupti)
  add_library(zrt_kernel_log MODULE EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tools/gpu/kernel_log.cpp)
  target_compile_features(zrt_kernel_log PRIVATE cxx_std_20)
  target_link_libraries(zrt_kernel_log PRIVATE CUDA::cupti)
  set_target_properties(zrt_kernel_log PROPERTIES PREFIX "" OUTPUT_NAME kernel_log LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  list(APPEND zrt_gpu_programs zrt_kernel_log)
endif()
add_custom_target(gpu_bundle
  COMMAND ${CMAKE_SOURCE_DIR}/tools/gpu/pack.sh ${CMAKE_BINARY_DIR} ${CMAKE_BINARY_DIR}/gpu_bundle ${CMAKE_BINARY_DIR}/gpu_tests.txt
  DEPENDS ${zrt_gpu_programs}
  COMMENT "Packing the GPU bundle"
  VERBATIM)
