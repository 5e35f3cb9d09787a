#include "runtime/train/launch/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "core/printable.h"

namespace zrt::runtime {

std::vector<Host> read_hosts(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in || std::filesystem::is_directory(file))
    throw core::DataError(fmt::format("{} cannot be read; it should list a host on each line", file.string()));
  std::vector<Host> hosts;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    constexpr const char* byte_order_mark = "\xEF\xBB\xBF";
    if (number == 1 && line.starts_with(byte_order_mark)) line.erase(0, 3);
    std::istringstream words(line.substr(0, line.find('#')));
    Host host;
    std::string rest;
    if (!(words >> host.name)) continue;
    const auto refuse = [&](const std::string& why) {
      throw core::DataError(fmt::format("{}:{}: '{}': {}; legal is a line such as \"worker-0 slots=8\"", file.string(),
                                        number, core::printable(line), why));
    };
    if (words >> rest) {
      const std::string value = rest.substr(std::min(rest.size(), std::string("slots=").size()));
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), host.slots);
      if (!rest.starts_with("slots=") || error != std::errc() || end != value.data() + value.size() || host.slots < 1 ||
          host.slots > 1024) {
        refuse("behind the name stands no number of slots from 1 to 1024");
      }
    }
    if (words >> rest) refuse("there is more behind the slots");
    if (host.name.starts_with('-')) refuse("a name cannot begin with a dash");
    // Addresses have several colons; "name:2" is how mpirun's -H writes slots.
    if (std::count(host.name.begin(), host.name.end(), ':') == 1 || host.name.find("]:") != std::string::npos) {
      refuse("a colon does not give slots, or a port");
    }
    if (std::any_of(hosts.begin(), hosts.end(), [&](const Host& other) { return other.name == host.name; })) {
      refuse("the host comes twice");
    }
    hosts.push_back(host);
  }
  if (hosts.empty()) throw core::DataError(fmt::format("{} lists no host", file.string()));
  return hosts;
}

int ranks_of(const std::vector<Host>& hosts) {
  int ranks = 0;
  for (const Host& host : hosts) ranks += host.slots;
  return ranks;
}

}  // namespace zrt::runtime
