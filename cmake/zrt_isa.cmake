# zrt_isa_kernels(target file): compiles `file` into `target` once per instruction set, with ZRT_ISA naming the set: v3
# (x86-64-v3: AVX2) and v4 (x86-64-v4: AVX-512). core::choose_isa() chooses between them at run time. On other processors
# the two are equal. Such a file must not use inline functions with external linkage (most of std::): the linker keeps
# one copy of those, perhaps one that the processor at hand cannot run. It must not run anything before main() either,
# where `zrt` refuses a processor without AVX2.
include_guard(GLOBAL)

function(zrt_isa_kernels target file)
  get_filename_component(stem ${file} NAME_WE)
  foreach(isa v3 v4)
    set(object ${target}_${stem}_${isa})
    add_library(${object} OBJECT ${file})
    target_link_libraries(${object} PRIVATE zrt_options)
    target_compile_definitions(${object} PRIVATE ZRT_ISA=${isa})
    # Nobody reads the floating-point exception flags; keeping them exact would stop selects from vectorising.
    target_compile_options(${object} PRIVATE -fno-trapping-math)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      target_compile_options(${object} PRIVATE -march=x86-64-${isa})
    endif()
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${object}>)
  endforeach()
endfunction()
