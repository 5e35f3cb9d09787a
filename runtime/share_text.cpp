#include "runtime/share_text.h"

#include <algorithm>
#include <cstring>

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

std::string broadcast_text(comm::Communicator& group, const std::string& of_root, const std::string& label) {
  uint64_t length = of_root.size();
  group.broadcast(&length, sizeof length, core::DType::u8, 0, label + ", size");
  std::string text = group.rank() == 0 ? of_root : std::string(length, '\0');
  group.broadcast(text.data(), static_cast<int64_t>(length), core::DType::u8, 0, label);
  return text;
}

}  // namespace zrt::runtime
