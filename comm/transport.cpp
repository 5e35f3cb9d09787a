#include "comm/transport.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/hash.h"

namespace zrt::comm {

void require_equal(Transport& transport, std::string_view what, const std::string& text,
                   std::chrono::milliseconds timeout) {
  core::Hash hash;
  hash.update(text.data(), text.size());
  const std::vector<std::string> all = transport.exchange(text.size() <= 32 ? text : "hash " + hash.hex(), timeout);
  for (size_t p = 1; p < all.size(); ++p) {
    if (all[p] == all[0]) continue;
    throw core::ConfigError(
        fmt::format("{} differs between process 0 ({}) and process {} ({}); start all processes with the "
                    "same program, configuration file and options, on machines of the same kind",
                    what, all[0], p, all[p]));
  }
}

}  // namespace zrt::comm
