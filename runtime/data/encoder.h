// Tokenizes documents on several threads and hands them on in the order in which they came, so that the result does not
// depend on the threads.
#pragma once
#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/data/tokenizer.h"

namespace zrt::runtime::data {

using ByteCounts = std::array<int64_t, 256>;

// Says in messages which document it was.
struct DocumentPlace {
  const std::string* path = nullptr;  // null: nobody said
  const char* unit = "document";
  int64_t number = 0;  // in the file, from 1
};

// Documents of one part of a dataset, one behind the other, with the last bytes of text and their ids. A large document
// of a bytewise tokenizer comes in pieces.
struct Encoded {
  int part = 0;
  std::string text;
  std::vector<size_t> text_ends;  // of each document or piece, in `text`
  std::vector<DocumentPlace> places;
  bool open = false;  // the last one goes on in the next batch

  std::vector<int32_t> ids;
  std::vector<size_t> id_ends;  // in `ids`
  // For conversations these say which bytes of the text count, and which ids, 1 or 0 each; else they are empty.
  std::string text_counts;
  std::vector<uint8_t> counted;
  ByteCounts counts{};  // of the bytes of `text`
};

class Encoder {
 public:
  using OnEncoded = std::function<void(const Encoded& batch)>;
  // Calls `on_encoded` in the thread that calls add() and finish(). Throws ConfigError for less than one thread.
  Encoder(const Tokenizer& tokenizer, int threads, OnEncoded on_encoded);
  ~Encoder();  // does not wait for documents that were not finished
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // An empty document is none. Both throw what the tokenizer threw, for the first document that it refused, with its
  // place in front, and what `on_encoded` throws.
  // text_counts: of a conversation (Tokenizer::encode_counted).
  void add(std::string_view document, int part, const DocumentPlace& place = {}, std::string_view text_counts = {});
  void finish();

 private:
  struct Job {
    Encoded batch;
    bool done = false;
    std::exception_ptr failed;
  };
  void append(std::string_view text, int part, const DocumentPlace& place, std::string_view text_counts, bool open);
  void submit();
  void hand_on(bool all);
  void stop();
  void work();
  void encode(Encoded& batch) const;

  const Tokenizer& tokenizer_;
  OnEncoded on_encoded_;
  Encoded filling_;

  std::mutex mutex_;
  std::condition_variable came_, finished_;
  std::deque<std::shared_ptr<Job>> pending_;  // in order: done, at work, waiting
  size_t taken_ = 0;                          // of pending_, by threads
  size_t pending_bytes_ = 0;                  // of their texts
  bool ending_ = false;
  std::vector<std::thread> threads_;  // empty: the caller encodes
};

}  // namespace zrt::runtime::data
