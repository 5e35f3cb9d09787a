// The hosts of a run, as DeepSpeed's and MPI's files list them.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace zrt::runtime {

struct Host {
  std::string name;
  int slots = 1;  // ranks: on GPUs as many as there are GPUs
};

// A line for each: "worker-0 slots=8", or a name alone for one rank; "#" begins a comment. Throws DataError that names
// the line: a host twice, a number that is none, anything else.
std::vector<Host> read_hosts(const std::filesystem::path& file);
int ranks_of(const std::vector<Host>& hosts);

}  // namespace zrt::runtime
