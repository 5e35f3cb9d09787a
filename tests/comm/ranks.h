// N ranks as threads of one test: runs `body(communicator)` on each and returns what each one threw.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/thread_group.h"

namespace zrt::comm {

using Group = std::vector<std::unique_ptr<Communicator>>;
using RankBody = std::function<void(Communicator&)>;

inline Group make_group(int size, std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  return make_thread_group("dp", size, timeout);
}

// What each rank threw: the message, or "" for none.
inline std::vector<std::string> run_catching(Group& group, const RankBody& body) {
  std::vector<std::string> errors(group.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < group.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        body(*group[r]);
      } catch (const std::exception& error) {
        errors[r] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

// Throws the first error of any rank.
inline void run_ranks(Group& group, const RankBody& body) {
  for (const std::string& error : run_catching(group, body)) {
    if (!error.empty()) throw std::runtime_error(error);
  }
}

}  // namespace zrt::comm
