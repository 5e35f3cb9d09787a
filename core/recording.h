// Work that was given to the streams of a GPU, to be given again at once: a CUDA graph.
#pragma once
#include <functional>
#include <memory>
#include <span>

#include "core/stream.h"

namespace zrt::core {

class Recording {
 public:
  virtual ~Recording() = default;
  // Queues all of it on a stream, in the order that the events of the recorded streams gave it. Values of parameters
  // are those of the recording; contents of memory are those of the moment.
  virtual void replay(Stream& stream) = 0;
};

// Calls `give`, which queues work on `streams`, and keeps that work instead of starting it. Only work that queues
// nothing elsewhere and waits for nothing from elsewhere can be recorded; whatever it needs must have been used before.
// Throws what `give` throws, or core::Error; nothing has run then.
std::unique_ptr<Recording> record(std::span<Stream* const> streams, const std::function<void()>& give);

}  // namespace zrt::core
