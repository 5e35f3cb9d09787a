// A device holds more than the buffers of programs: this lists it by what takes it.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace zrt::runtime {

struct Reserved {
  struct Part {
    std::string name;
    uint64_t bytes = 0;
  };
  std::vector<Part> parts;

  uint64_t bytes() const;
  // Says ", less 1.00 GiB (modules 128.00 MiB, …)" without the parts that have no bytes; "" where none has any.
  std::string less() const;
  // Drops the parts that the driver counts as used once a process has a context.
  Reserved after_context() const;
};

// Parts stand in the order in which they are taken: what the driver keeps of the memory that it reports, a process's
// context, its kernels, workspaces of cuBLASLt and the like, and NCCL's buffers.
inline constexpr std::array<const char*, 5> reserved_names{"driver", "context", "modules", "libraries", "nccl"};

// A run leaves these parts free on a GPU of no known cluster.
const Reserved& usual_reserved();

}  // namespace zrt::runtime
