# Options every zrt target shares, and the one function that declares a folder as a target.
add_library(zrt_options INTERFACE)
target_include_directories(zrt_options INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
# IEEE arithmetic everywhere: contraction would make bits depend on how the compiler vectorised a loop.
target_compile_options(zrt_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-sign-conversion;-ffp-contract=off;-fno-math-errno>")
# In a unity build, what one file keeps to itself is seen by the next: only there are these two warnings false.
if(CMAKE_UNITY_BUILD)
  target_compile_options(zrt_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>" "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>")
endif()
if(ZRT_WERROR)
  target_compile_options(zrt_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(ZRT_SANITIZE)
  # The property ZRT_NO_SANITIZE of a target names sanitizers that its own code goes without.
  set(zrt_without "$<TARGET_PROPERTY:ZRT_NO_SANITIZE>")
  target_compile_options(zrt_options INTERFACE
                         "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${ZRT_SANITIZE};-fno-omit-frame-pointer>"
                         "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${zrt_without}>>:-fno-sanitize=${zrt_without}>")
  target_link_options(zrt_options INTERFACE -fsanitize=${ZRT_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # gcc 12 reports false positives of these kinds in sanitized standard headers.
    target_compile_options(zrt_options INTERFACE
                           "$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized;-Wno-stringop-overflow;-Wno-tsan>")
  else()
    # clang says which loops the sanitizers keep from vectorising.
    target_compile_options(zrt_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-pass-failed>)
    # gcc's names for what clang asks by __has_feature.
    foreach(kind address thread)
      string(TOUPPER ${kind} name)
      if(ZRT_SANITIZE MATCHES ${kind})
        target_compile_definitions(zrt_options INTERFACE __SANITIZE_${name}__=1)
      endif()
    endforeach()
  endif()
endif()

# zrt_folder(name SOURCES … LINK …): library zrt_<name>, alias and installed name zrt::<name>. Warnings and sanitizers
# are not handed on to users of an installed zrt.
function(zrt_folder name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(zrt_${name} STATIC ${ARG_SOURCES})
  add_library(zrt::${name} ALIAS zrt_${name})
  target_link_libraries(zrt_${name} PUBLIC $<BUILD_INTERFACE:zrt_options> ${ARG_LINK})
  target_include_directories(zrt_${name} INTERFACE $<INSTALL_INTERFACE:include/zrt>)
  target_compile_features(zrt_${name} PUBLIC cxx_std_20)
  set_target_properties(zrt_${name} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY ZRT_FOLDERS zrt_${name})
endfunction()

# zrt_group(name FOLDER…): zrt::<name> is all of these libraries.
function(zrt_group name)
  add_library(zrt_${name} INTERFACE)
  add_library(zrt::${name} ALIAS zrt_${name})
  target_link_libraries(zrt_${name} INTERFACE ${ARGN})
  set_target_properties(zrt_${name} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY ZRT_FOLDERS zrt_${name})
endfunction()

# zrt_fuzzed(target): it reads what others wrote, so fuzzers are to see which of its branches an input takes.
function(zrt_fuzzed target)
  if(ZRT_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()
