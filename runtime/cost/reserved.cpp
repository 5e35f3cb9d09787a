#include "runtime/cost/reserved.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/ledger.h"

namespace zrt::runtime {

uint64_t Reserved::bytes() const {
  return std::accumulate(parts.begin(), parts.end(), uint64_t{0},
                         [](uint64_t sum, const Part& part) { return sum + part.bytes; });
}

std::string Reserved::less() const {
  std::string list;
  for (const Part& part : parts) {
    if (part.bytes == 0) continue;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", part.name, core::format_bytes(part.bytes));
  }
  return list.empty() ? "" : fmt::format(", less {} ({})", core::format_bytes(bytes()), list);
}

Reserved Reserved::after_context() const {
  Reserved rest = *this;
  std::erase_if(rest.parts, [](const Part& part) { return part.name == "driver" || part.name == "context"; });
  return rest;
}

const Reserved& usual_reserved() {
  // The shipped files have the same bytes, with their sources.
  static const Reserved usual{{{"modules", 128u << 20}, {"libraries", 352u << 20}, {"nccl", 544u << 20}}};
  return usual;
}

}  // namespace zrt::runtime
