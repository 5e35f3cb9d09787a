#include "comm/communicator.h"

#include <array>

namespace zrt::comm {

std::string_view collective_kind_name(CollectiveKind kind) {
  static constexpr std::array<std::string_view, collective_kind_count> names{
      "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "send_recv", "barrier"};
  return names[static_cast<size_t>(kind)];
}

}  // namespace zrt::comm
