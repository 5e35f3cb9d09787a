#include "comm/nccl/communicator.h"

#include <fmt/format.h>

#include <charconv>

#include "comm/nccl/rendezvous.h"
#include "core/error.h"

namespace zrt::comm {
namespace {

ncclUniqueId parse_id(const std::string& text) {
  ncclUniqueId id{};
  bool legal = text.size() == 2 * sizeof id.internal;
  for (size_t i = 0; legal && i < sizeof id.internal; ++i) {
    unsigned char byte = 0;
    const char* begin = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(begin, begin + 2, byte, 16);
    legal = error == std::errc() && end == begin + 2;
    id.internal[i] = static_cast<char>(byte);
  }
  if (!legal) {
    throw core::CommError(
        fmt::format("'{}' is no id of an NCCL group; legal are the {} hexadecimal digits that "
                    "make_nccl_id gave to one of the ranks",
                    text, 2 * sizeof id.internal));
  }
  return id;
}

}  // namespace

std::string make_nccl_id() {
  const NcclLibrary& library = nccl_library();
  ncclUniqueId id{};
  library.check(library.get_unique_id(&id), "ncclGetUniqueId");
  std::string text;
  for (char byte : id.internal) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::unique_ptr<Communicator> make_nccl_communicator(const std::string& group, const std::string& id, int rank,
                                                     int size, std::byte* staging, uint64_t staging_bytes) {
  const ncclUniqueId unique = parse_id(id);
  if (staging_bytes < 16 * static_cast<uint64_t>(size - 1)) {
    throw core::CommError(fmt::format("group {} of {} ranks has {} bytes of staging; legal are {} and more", group,
                                      size, staging_bytes, 16 * (size - 1)));
  }
  const NcclLibrary& library = nccl_library();
  ncclComm_t communicator = nullptr;
  library.check(library.init_rank(&communicator, size, unique, rank), "ncclCommInitRank");
  return make_communicator(
      std::make_shared<NcclRendezvous>(library, communicator, group, rank, size, staging, staging_bytes), rank);
}

}  // namespace zrt::comm
