# zrt_native_chips(RESULT): the GPUs of this machine, as ZRT_CUDA_ARCHITECTURES has them: those that the driver lists, each once.
function(zrt_native_chips result)
  find_program(ZRT_NVIDIA_SMI nvidia-smi HINTS /usr/local/nvidia/bin)
  if(ZRT_NVIDIA_SMI)
    execute_process(COMMAND ${ZRT_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE listed ERROR_QUIET RESULT_VARIABLE code)
  endif()
  string(REGEX MATCHALL "[0-9]+\\.[0-9]+" chips "${listed}")
  if(NOT ZRT_NVIDIA_SMI OR NOT code EQUAL 0 OR NOT chips)
    message(FATAL_ERROR "ZRT_CUDA_ARCHITECTURES is native, but nvidia-smi lists no GPU here; name chips, for example "
                        "-DZRT_CUDA_ARCHITECTURES=90, or build without the CUDA back end: -DZRT_CUDA=OFF")
  endif()
  list(TRANSFORM chips REPLACE "\\." "")
  list(REMOVE_DUPLICATES chips)
  set(${result} ${chips} PARENT_SCOPE)
endfunction()
