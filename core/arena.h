// One allocation per tier, made from the memory plan and filled with a canary so that use can be observed afterwards.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/device.h"
#include "core/ledger.h"

namespace zrt::core {

// The canary byte: as the high byte of a float it means about -2.6e36, a value no training state holds.
inline constexpr uint8_t canary_byte = 0xFB;
inline constexpr uint8_t red_zone_byte = 0xFA;  // seen by highest_touched, which takes it for the end of a buffer
// Bytes kept free behind every buffer. The executor paints them before the first write of a buffer's life and checks
// them after every operation that writes it.
inline constexpr uint64_t red_zone_bytes = 64;

// The name of the files behind shared arenas, as the kernel lists them.
inline constexpr const char* shared_arena_name = "zrt arena";

class Arena {
 public:
  // Takes `bytes` plus a guard of 64 KiB that nothing may touch. On a GPU the device tier is memory of the GPU, which
  // the host cannot read, and the host tier is pinned memory, which both can. `keep` is dropped before the memory goes.
  // Throws MemoryError when the system refuses.
  Arena(Tier tier, uint64_t bytes, DeviceKind device = DeviceKind::cpu, std::shared_ptr<void> keep = nullptr);
  // The same in an empty file that other processes can map too; the file is sized here.
  Arena(Tier tier, uint64_t bytes, int file, std::shared_ptr<void> keep);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t mapped_bytes() const { return mapped_; }  // with the guard; all of it is resident
  Tier tier() const { return tier_; }
  bool on_gpu() const { return kind_ == Kind::gpu; }
  int gpu() const { return gpu_; }  // whose memory it is, where on_gpu()

  // One past the last buffer that was ever written: the highest byte that no longer holds the canary, found by scanning
  // down from the guard's end, without the red zone that lies behind a buffer.
  uint64_t highest_touched() const;

 private:
  enum class Kind : uint8_t { mapped, pinned, gpu };
  void map(int file);

  Tier tier_;
  Kind kind_ = Kind::mapped;
  int gpu_ = 0;
  uint64_t bytes_ = 0, mapped_ = 0;
  std::byte* data_ = nullptr;
  std::shared_ptr<void> keep_;
};

// A rank's arenas by tier; null where a rank holds nothing.
using Arenas = std::array<Arena*, tier_count>;

void paint_red_zone(std::byte* begin);  // fills red_zone_bytes
bool red_zone_intact(const std::byte* begin);

}  // namespace zrt::core
