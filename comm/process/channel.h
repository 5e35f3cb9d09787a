// An ordered stream of frames between two ranks of a group, in both directions. Never blocks. Not thread-safe: a rank's
// calls own its channels.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace zrt::comm {

// Frames are cut at this size on every channel, because a sum needs pieces of equal length from all.
inline constexpr size_t frame_bytes = 128 << 10;
inline constexpr size_t frames_in_flight = 4;

enum class FrameKind : uint32_t { call, data, token, abort };

struct Frame {
  FrameKind kind;
  std::span<const std::byte> bytes;
};

class Channel {
 public:
  virtual ~Channel() = default;
  // Begins to send a frame of at most frame_bytes; false when there is no room yet. The bytes must stay as they are
  // until flushed().
  virtual bool send(FrameKind kind, std::span<const std::byte> bytes) = 0;
  virtual bool flushed() = 0;
  virtual std::optional<Frame> receive() = 0;  // the oldest frame that has arrived; valid until pop
  virtual void pop() = 0;
};

}  // namespace zrt::comm
