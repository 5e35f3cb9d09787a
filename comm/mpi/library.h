// The MPI library of this process. Calls are made one at a time, under a lock and without blocking, by whichever thread
// waits for something: MPI_THREAD_SERIALIZED suffices, and no thread spins inside MPI.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/process/channel.h"

namespace zrt::comm {

std::unique_lock<std::mutex> lock_mpi();
void check_mpi(int code, const char* call);  // throws CommError with MPI's text

void start_mpi();   // throws CommError
void finish_mpi();  // collective; all have said good-bye
[[noreturn]] void abort_mpi(int code);
int mpi_rank();
int mpi_world();

// Calls `done` under the lock until it is true, with growing naps between; false at the deadline.
bool poll_mpi(const std::function<bool()>& done, std::chrono::milliseconds timeout);

// Every process's text, in rank order.
std::vector<std::string> exchange_texts(const std::string& text, std::chrono::milliseconds timeout);

// Channels to `peers`, separate from all made before. Collective over all processes.
std::vector<std::unique_ptr<Channel>> make_mpi_channels(const std::vector<int>& peers,
                                                        std::chrono::milliseconds timeout);

}  // namespace zrt::comm
