# The CUDA back end: ZRT_HAS_CUDA where the toolkit is found, and zrt_cuda_sources(target file…), which adds its files.
# ZRT_CUDA: ON, OFF, or EMULATED: the same sources as C++ for a GPU that the host plays (tests/emulator), for tests.
# CMake 3.25 knows neither C++20 for CUDA nor toolkit 13: it is told the option of the one, and architectures are passed
# to nvcc as options.
include_guard(GLOBAL)
set(ZRT_CUDA ON CACHE STRING "The CUDA back end: ON where the CUDA Toolkit is found, OFF, or EMULATED for tests")
set(ZRT_CUDA_ARCHITECTURES "" CACHE STRING "Chips to build for, for example 80;90a;100; empty: those the toolkit knows")
set(ZRT_HAS_CUDA OFF)
set(ZRT_CUDA_EMULATED OFF)
if(ZRT_CUDA STREQUAL "EMULATED")
  set(ZRT_HAS_CUDA ON)
  set(ZRT_CUDA_EMULATED ON)
  set(zrt_cuda_includes ${CMAKE_SOURCE_DIR}/tests/emulator/include ${CMAKE_SOURCE_DIR}/tests)
elseif(ZRT_CUDA)
  find_program(ZRT_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda/bin)
  if(ZRT_NVCC)
    set(CMAKE_CUDA_COMPILER ${ZRT_NVCC})
    set(CMAKE_CUDA_ARCHITECTURES OFF)
    if(DEFINED ENV{CMAKE_CXX_COMPILER_LAUNCHER} AND NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
      set(CMAKE_CUDA_COMPILER_LAUNCHER $ENV{CMAKE_CXX_COMPILER_LAUNCHER})
    endif()
    enable_language(CUDA)
    foreach(kind STANDARD EXTENSION)
      set(CMAKE_CUDA20_${kind}_COMPILE_OPTION -std=c++20)
    endforeach()
    find_package(CUDAToolkit REQUIRED)
    string(APPEND ZRT_DEPENDENCIES "find_dependency(CUDAToolkit)\n")
    set(ZRT_HAS_CUDA ON)
    set(zrt_cuda_includes ${CUDAToolkit_INCLUDE_DIRS})
  endif()
endif()

if(ZRT_HAS_CUDA AND NOT ZRT_CUDA_EMULATED)
  if(NOT ZRT_CUDA_ARCHITECTURES)
    execute_process(COMMAND ${ZRT_NVCC} --list-gpu-arch OUTPUT_VARIABLE zrt_known)
    foreach(arch 80 90 100)
      if(zrt_known MATCHES "compute_${arch}")
        list(APPEND ZRT_CUDA_ARCHITECTURES ${arch})
      endif()
    endforeach()
    list(TRANSFORM ZRT_CUDA_ARCHITECTURES REPLACE "^90$" "90a")
  endif()
  set(zrt_cuda_options --expt-relaxed-constexpr -lineinfo "-Xcompiler=-Wall,-Wextra,-Wno-unused-parameter")
  foreach(arch ${ZRT_CUDA_ARCHITECTURES})
    list(APPEND zrt_cuda_options "-gencode=arch=compute_${arch},code=sm_${arch}")
  endforeach()
  if(ZRT_WERROR)
    list(APPEND zrt_cuda_options -Werror=all-warnings)
  endif()
endif()

# Files of the CUDA back end: HOST ones are C++ that calls CUDA's libraries. Those after EXACT must have the host's bits:
# no multiplication and addition is contracted. All others in the project never see CUDA's headers.
function(zrt_cuda_sources target)
  cmake_parse_arguments(ARG "" "" "EXACT;HOST" ${ARGN})
  target_sources(${target} PRIVATE ${ARG_UNPARSED_ARGUMENTS} ${ARG_EXACT} ${ARG_HOST})
  set_source_files_properties(${ARG_UNPARSED_ARGUMENTS} ${ARG_EXACT} ${ARG_HOST} PROPERTIES
                              INCLUDE_DIRECTORIES "${zrt_cuda_includes}")
  if(ZRT_CUDA_EMULATED)
    # In quotes, files of the emulator stand for those of the same name. Threads of a kernel have stacks of their own,
    # which sanitizers take for mistakes; red zones around buffers show what kernels overrun. Warnings are nvcc's to give, which also lets
    # kernels read memory as other types.
    set_source_files_properties(${ARG_UNPARSED_ARGUMENTS} ${ARG_EXACT} PROPERTIES LANGUAGE CXX
                                COMPILE_OPTIONS "-w;-O2;-fno-strict-aliasing;-fno-sanitize=all;-iquote${CMAKE_SOURCE_DIR}/tests/emulator/include")
  else()
    set_source_files_properties(${ARG_UNPARSED_ARGUMENTS} PROPERTIES COMPILE_OPTIONS "${zrt_cuda_options}")
    set_source_files_properties(${ARG_EXACT} PROPERTIES COMPILE_OPTIONS "${zrt_cuda_options};-fmad=false")
  endif()
endfunction()

# The runtime, or what plays it, for whoever links `target`.
function(zrt_link_cuda target)
  if(ZRT_CUDA_EMULATED)
    target_link_libraries(${target} PUBLIC $<BUILD_INTERFACE:$<LINK_ONLY:zrt_emulator>>)
  else()
    target_link_libraries(${target} PUBLIC $<LINK_ONLY:CUDA::cudart_static> ${CMAKE_DL_LIBS})
  endif()
endfunction()
