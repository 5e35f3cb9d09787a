#include "runtime/train/share_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>

#include "core/error.h"

namespace zrt::runtime {

std::vector<std::string> gather_texts(comm::Communicator& group, const std::string& own, const std::string& label) {
  const auto ranks = static_cast<size_t>(group.size());
  const uint64_t length = own.size();
  std::vector<uint64_t> lengths(ranks);
  const comm::GatherRange sizes{&length, lengths.data(), sizeof length};
  group.all_gather({&sizes, 1}, core::DType::u8, label + ", sizes");
  const uint64_t most = *std::max_element(lengths.begin(), lengths.end());
  std::string padded = own, all(most * ranks, '\0');
  padded.resize(most);
  const comm::GatherRange texts{padded.data(), all.data(), static_cast<int64_t>(most)};
  group.all_gather({&texts, 1}, core::DType::u8, label);
  std::vector<std::string> result;
  for (size_t r = 0; r < ranks; ++r) result.push_back(all.substr(r * most, lengths[r]));
  return result;
}

std::vector<std::string> gather_results(comm::Communicator& group, const std::function<std::string()>& work,
                                        std::chrono::milliseconds beat, std::chrono::milliseconds limit,
                                        const std::string& label) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::future<std::string> result = std::async(std::launch::async, work);
  std::string own;  // empty until the work is done
  while (true) {
    if (own.empty() && result.wait_for(beat) == std::future_status::ready) own = fmt::format("={}", result.get());
    if (own.empty() && std::chrono::steady_clock::now() > deadline) {
      const std::string reason = fmt::format(
          "group {}: rank {} is not done with \"{}\" after {} ms; does its disk hang? Look at the system's "
          "log, or raise run.timeout_seconds",
          group.group(), group.rank(), label, limit.count());
      group.abort(reason);
      throw core::CommError(reason);
    }
    std::vector<std::string> all = gather_texts(group, own, label);
    if (std::any_of(all.begin(), all.end(), [](const std::string& text) { return text.empty(); })) continue;
    for (std::string& text : all) text.erase(0, 1);
    return all;
  }
}

}  // namespace zrt::runtime
