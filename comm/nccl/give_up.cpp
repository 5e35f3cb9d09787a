#include "comm/nccl/give_up.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <stop_token>
#include <thread>

namespace zrt::comm {

constexpr auto longest_wait = std::chrono::seconds(4);

void give_up(const NcclLibrary& library, ncclComm_t communicator, const std::string& who, const std::string& reason) {
  const std::jthread last_resort([&](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, stop, longest_wait, [] { return false; });
    if (stop.stop_requested()) return;
    std::cerr << fmt::format(
                     "zrt: error: {} cannot leave its group: NCCL, or what its GPU has still to do, has not given it "
                     "up within {} s, and this process ends. The group was given up because: {}\n",
                     who, longest_wait.count(), reason)
              << std::flush;
    _exit(1);
  });
  library.abort(communicator);
}

}  // namespace zrt::comm
