#include "comm/nccl/communicator.h"

#include <fmt/format.h>

#include <charconv>
#include <thread>
#include <utility>

#include "comm/nccl/give_up.h"
#include "comm/nccl/rendezvous.h"
#include "core/error.h"

namespace zrt::comm {
namespace {

using std::chrono::steady_clock;

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

std::shared_ptr<NcclRendezvous> make_nccl_rendezvous(const std::string& id, NcclSeat seat,
                                                     const std::function<void()>& alive) {
  const int size = seat.size();
  const ncclUniqueId unique = parse_id(id);
  if (seat.staging_bytes < 16 * static_cast<uint64_t>(size - 1)) {
    throw core::CommError(fmt::format("group {} of {} ranks has {} bytes of staging; legal are {} and more", seat.group,
                                      size, seat.staging_bytes, 16 * (size - 1)));
  }
  const NcclLibrary& library = nccl_library();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t communicator = nullptr;
  try {
    ncclResult_t code = library.init_rank(&communicator, size, unique, seat.rank, &config);
    const auto deadline = steady_clock::now() + most_wait(seat.timeout);
    while (code == ncclInProgress) {
      if (steady_clock::now() >= deadline) {
        throw core::CommError(
            fmt::format("group {} of {} ranks: rank {} waited {} ms for NCCL to connect the others. "
                        "Look for an earlier error there, or raise run.timeout_seconds",
                        seat.group, size, seat.rank, most_wait(seat.timeout).count()));
      }
      if (alive) alive();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      library.check(library.async_error(communicator, &code), "ncclCommGetAsyncError");
    }
    library.check(code, "ncclCommInitRank");
  } catch (const std::exception& error) {
    if (communicator)
      give_up(library, communicator, fmt::format("rank {} of group {}", seat.rank, seat.group), error.what());
    throw;
  }
  return std::make_shared<NcclRendezvous>(library, communicator, std::move(seat));
}

std::unique_ptr<Communicator> make_nccl_communicator(const std::string& id, NcclSeat seat) {
  const int rank = seat.rank;
  return make_communicator(make_nccl_rendezvous(id, std::move(seat)), rank);
}

}  // namespace zrt::comm
