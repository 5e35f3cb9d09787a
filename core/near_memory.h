// Memory of the host on one of its NUMA nodes.
#pragma once

namespace zrt::core {

// New pages of the calling thread, and of threads that it starts later, come from the host's memory `node` as long as
// it has any. Which processors they run on is left to the system, or to whoever binds them. Returns whether that is so;
// not for -1, a node that the host lacks, and where a container forbids it.
bool prefer_memory_of(int node);

}  // namespace zrt::core
