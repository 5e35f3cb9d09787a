#include "runtime/data/read_ahead.h"

#include <algorithm>
#include <utility>

namespace zrt::runtime::data {

ReadAhead::ReadAhead(std::shared_ptr<const SampleSource> source)
    : source_(std::move(source)), thread_([this] { work(); }) {}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void ReadAhead::begin_step(int64_t step_samples) {
  {
    const std::lock_guard lock(mutex_);
    std::set<int64_t> now;
    wanted_.clear();
    for (auto sample = read_.rbegin(); sample != read_.rend(); ++sample) {
      now.insert(*sample + step_samples);
      const int64_t next = *sample + 2 * step_samples;
      if (next < source_->size()) wanted_.push_back(next);
    }
    std::erase_if(ahead_, [&](const auto& entry) { return now.count(entry.first) == 0; });
    read_.clear();
  }
  wake_.notify_all();
}

void ReadAhead::read(int64_t sample, const SampleRows& to) const {
  {
    const std::lock_guard lock(mutex_);
    read_.insert(sample);
    positions_ = to.positions != nullptr;
    const auto found = ahead_.find(sample);
    if (found != ahead_.end() && found->second.size() >= words(positions_)) {
      const int32_t* row = found->second.data();
      std::copy_n(row, sequence(), to.tokens);
      std::copy_n(row + sequence(), sequence(), to.targets);
      if (positions_) std::copy_n(row + 2 * sequence(), sequence(), to.positions);
      return;
    }
  }
  source_->read(sample, to);
}

void ReadAhead::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return over_ || !wanted_.empty(); });
    if (over_) return;
    const int64_t sample = wanted_.back();
    wanted_.pop_back();
    const bool positions = positions_;
    lock.unlock();
    std::vector<int32_t> row(words(positions));
    int32_t* const targets = row.data() + sequence();
    bool there = true;
    try {
      source_->read(sample, {row.data(), targets, positions ? targets + sequence() : nullptr});
    } catch (const std::exception&) {
      there = false;  // whoever needs it meets the error
    }
    lock.lock();
    if (there) ahead_[sample] = std::move(row);
  }
}

}  // namespace zrt::runtime::data
