#include "runtime/data/encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace zrt::runtime::data {

namespace {

// A batch of this size costs more than its hand-over.
constexpr size_t batch_bytes = size_t{1} << 18;
// Texts that wait or are at work: a bound of memory, beside four batches for each thread.
constexpr size_t most_pending_bytes = size_t{32} << 20;

}  // namespace

Encoder::Encoder(const Tokenizer& tokenizer, int threads, OnEncoded on_encoded)
    : tokenizer_(tokenizer), on_encoded_(std::move(on_encoded)) {
  if (threads < 1 || threads > 1024)
    throw core::ConfigError(fmt::format("threads is {}; legal are 1 to 1024.", threads));
  try {
    for (int i = 0; threads > 1 && i < threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    const size_t started = threads_.size();
    stop();
    throw core::ConfigError(fmt::format("threads is {}, but the system lets no more than {} begin ({}). Use fewer.",
                                        threads, started, error.what()));
  }
}

Encoder::~Encoder() {
  stop();
}

void Encoder::stop() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  came_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Encoder::add(std::string_view document, int part, const DocumentPlace& place, std::string_view text_counts) {
  if (document.empty()) return;
  // Ids take four times the text; where the tokenizer allows it only a piece of them exists at a time.
  while (tokenizer_.bytewise() && document.size() > batch_bytes) {
    append(document.substr(0, batch_bytes), part, place, text_counts.substr(0, batch_bytes), true);
    document.remove_prefix(batch_bytes);
    text_counts.remove_prefix(std::min(batch_bytes, text_counts.size()));
  }
  append(document, part, place, text_counts, false);
}

void Encoder::append(std::string_view text, int part, const DocumentPlace& place, std::string_view text_counts,
                     bool open) {
  if (part != filling_.part || (!filling_.text.empty() && filling_.text.size() + text.size() > batch_bytes)) submit();
  filling_.part = part;
  filling_.text += text;
  filling_.text_counts += text_counts;
  filling_.text_ends.push_back(filling_.text.size());
  filling_.places.push_back(place);
  filling_.open = open;
  if (filling_.text.size() >= batch_bytes) submit();
}

void Encoder::submit() {
  if (filling_.text_ends.empty()) return;
  Encoded batch = std::exchange(filling_, {});
  if (threads_.empty()) {
    encode(batch);
    return on_encoded_(batch);
  }
  auto job = std::make_shared<Job>();
  job->batch = std::move(batch);
  {
    const std::lock_guard lock(mutex_);
    pending_bytes_ += job->batch.text.size();
    pending_.push_back(std::move(job));
  }
  came_.notify_one();
  hand_on(false);
}

void Encoder::finish() {
  submit();
  hand_on(true);
}

// Hands on what is done at the front; waits for more of it where too much is pending, or `all` was asked for.
void Encoder::hand_on(bool all) {
  std::unique_lock lock(mutex_);
  while (!pending_.empty()) {
    const bool full = pending_.size() > 4 * threads_.size() || pending_bytes_ > most_pending_bytes;
    if (!pending_.front()->done) {
      if (!full && !all) return;
      finished_.wait(lock, [&] { return pending_.front()->done; });
    }
    const std::shared_ptr<Job> job = pending_.front();
    pending_.pop_front();
    --taken_;
    pending_bytes_ -= job->batch.text.size();
    lock.unlock();
    if (job->failed) std::rethrow_exception(job->failed);
    on_encoded_(job->batch);
    lock.lock();
  }
}

void Encoder::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    came_.wait(lock, [&] { return ending_ || taken_ < pending_.size(); });
    if (ending_) return;
    const std::shared_ptr<Job> job = pending_[taken_++];
    lock.unlock();
    try {
      encode(job->batch);
    } catch (...) {
      job->failed = std::current_exception();
    }
    lock.lock();
    job->done = true;
    finished_.notify_all();
  }
}

void Encoder::encode(Encoded& batch) const {
  size_t at = 0;
  batch.ids.reserve(batch.text.size() / (tokenizer_.bytewise() ? 1 : 4));
  for (const size_t end : batch.text_ends) {
    try {
      const std::string_view text = std::string_view(batch.text).substr(at, end - at);
      if (batch.text_counts.empty())
        tokenizer_.encode(text, batch.ids);
      else
        tokenizer_.encode_counted(text, std::string_view(batch.text_counts).substr(at, end - at), batch.ids,
                                  batch.counted);
    } catch (const core::DataError& error) {
      const DocumentPlace& place = batch.places[batch.id_ends.size()];
      if (place.path == nullptr) throw;
      throw core::DataError(fmt::format("{}: {} {}: {}", *place.path, place.unit, place.number, error.what()));
    }
    batch.id_ends.push_back(batch.ids.size());
    at = end;
  }
  for (const char c : batch.text) ++batch.counts[static_cast<unsigned char>(c)];
}

}  // namespace zrt::runtime::data
