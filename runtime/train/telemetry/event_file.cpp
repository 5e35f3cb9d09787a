#include "runtime/train/telemetry/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <ctime>

#include "core/error.h"
#include "core/file.h"

namespace zrt::runtime {
namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Little-endian bytes, as the frames and protobuf's fixed fields want them on every machine.
template <class Integer>
void put(std::string& out, Integer value) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i));
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// Fields of protobuf messages: number and wire type, then the value.
enum Wire : uint32_t { varint = 0, fixed64 = 1, length_delimited = 2, fixed32 = 5 };
void put_key(std::string& out, uint32_t number, Wire wire) {
  put_varint(out, number << 3 | wire);
}
void put_double(std::string& out, uint32_t number, double value) {
  put_key(out, number, fixed64);
  put(out, std::bit_cast<uint64_t>(value));
}
void put_float(std::string& out, uint32_t number, double value) {
  put_key(out, number, fixed32);
  put(out, std::bit_cast<uint32_t>(static_cast<float>(value)));
}
void put_integer(std::string& out, uint32_t number, int64_t value) {
  put_key(out, number, varint);
  put_varint(out, static_cast<uint64_t>(value));
}
void put_bytes(std::string& out, uint32_t number, std::string_view bytes) {
  put_key(out, number, length_delimited);
  put_varint(out, bytes.size());
  out += bytes;
}

// Event: wall_time 1, step 2, file_version 3, summary 5, session_log 7. Summary: value 1; Value: tag 1, simple_value 2.
// SessionLog: status 1, of which START is 1.
std::string event(double wall, int64_t samples) {
  std::string message;
  put_double(message, 1, wall);
  if (samples != 0) put_integer(message, 2, samples);
  return message;
}

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    table[byte] = crc;
  }
  return table;
}

// Checksums of data that itself holds checksums are weak; the format masks them.
uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

std::string host_name() {
  char name[256] = "localhost";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> table = make_crc_table();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return ~crc;
}

std::string event_record(std::string_view event) {
  std::string length, record;
  put(length, uint64_t{event.size()});
  record = length;
  put(record, masked_crc(length));
  record += event;
  put(record, masked_crc(event));
  return record;
}

std::string version_event(double wall_seconds) {
  std::string message = event(wall_seconds, 0);
  put_bytes(message, 3, "brain.Event:2");
  return message;
}

std::string restart_event(double wall_seconds, int64_t samples) {
  std::string message = event(wall_seconds, samples), log;
  put_integer(log, 1, 1);
  put_bytes(message, 7, log);
  return message;
}

std::string scalar_event(double wall_seconds, int64_t samples, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    put_float(value, 2, scalar.value);
    put_bytes(summary, 1, value);
  }
  std::string message = event(wall_seconds, samples);
  put_bytes(message, 5, summary);
  return message;
}

EventFile::EventFile(const std::filesystem::path& folder, int64_t samples) {
  core::make_folder(folder);
  std::filesystem::path path;
  // Runs that follow each other within a second need names of their own, in order.
  for (int n = 0; path.empty() || std::filesystem::exists(path); ++n) {
    path = folder / fmt::format("events.out.tfevents.{:010d}.{}.{}.{}", std::time(nullptr), host_name(), getpid(), n);
  }
  core::write_durably(path, "");
  file_.emplace(path, 0);
  file_->add(event_record(version_event(wall_seconds())));
  file_->add(event_record(restart_event(wall_seconds(), samples + 1)));
}

void EventFile::add(int64_t samples, std::span<const Scalar> scalars) {
  file_->add(event_record(scalar_event(wall_seconds(), samples, scalars)));
}

}  // namespace zrt::runtime
