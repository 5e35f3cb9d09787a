#include "runtime/train/stop_inquiry.h"

#include <algorithm>
#include <string>
#include <utility>

namespace zrt::runtime {

StopInquiry::StopInquiry(comm::Transport& transport, std::function<bool()> own, std::chrono::milliseconds timeout)
    : transport_(transport), own_(std::move(own)), timeout_(timeout), last_(std::chrono::steady_clock::now()) {}

bool StopInquiry::ask() {
  if (transport_.local_count() == transport_.world()) return own_ && own_();
  if (batches_++ < next_) return false;
  const auto now = std::chrono::steady_clock::now();
  const auto took = std::chrono::ceil<std::chrono::microseconds>(now - last_).count();
  const std::string stops = own_ && own_() ? "1 " : "0 ";
  int64_t slowest = 1;
  for (const std::string& said : transport_.exchange(stops + std::to_string(took), timeout_)) {
    if (said.starts_with('1')) return true;
    slowest = std::max<int64_t>(slowest, std::stoll(said.substr(2)));
  }
  constexpr int64_t second = 1'000'000, most = 1000;
  apart_ = std::clamp<int64_t>(second * apart_ / slowest, 1, most);
  next_ = batches_ - 1 + apart_;
  last_ = std::chrono::steady_clock::now();
  return false;
}

}  // namespace zrt::runtime
