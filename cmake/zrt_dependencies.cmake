# zrt_find(package …): find_package(package … REQUIRED), remembered, so that whoever finds an installed zrt finds the
# same packages.
include_guard(GLOBAL)
set(ZRT_DEPENDENCIES "")
macro(zrt_find package)
  find_package(${package} ${ARGN} REQUIRED)
  string(JOIN " " zrt_find_line ${package} ${ARGN})
  string(APPEND ZRT_DEPENDENCIES "find_dependency(${zrt_find_line})\n")
endmacro()
