#include "runtime/bench/traffic.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "core/arena.h"
#include "core/error.h"
#include "runtime/bench/bench.h"
#include "runtime/engine/rank_threads.h"

namespace zrt::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto slice = std::chrono::milliseconds(20);  // the pace is looked up once in each
constexpr uint64_t most_bytes = 16 << 20;              // in a slice

// Others read either the old content or the new.
void replace(const std::filesystem::path& file, const std::string& text) {
  const std::filesystem::path draft = file.string() + ".new";
  std::error_code error;
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), error);
  std::ofstream out(draft);
  out << text << std::flush;
  if (out) std::filesystem::rename(draft, file, error);
  if (!out || error) throw core::DataError(fmt::format("{} cannot be written; choose another file", file.string()));
}

void serve(comm::Communicator& group, core::Arena& arena, const TrafficFile& file) {
  const int size = group.size(), rank = group.rank();
  uint64_t moved = 0;
  auto next = Clock::now();
  while (true) {
    double pace = rank == 0 ? file.asked() : 0;
    group.broadcast(&pace, sizeof pace, core::DType::u8, 0, "pace");
    if (pace == TrafficFile::stop) return;
    const auto bytes = std::min(most_bytes, static_cast<uint64_t>(pace * std::chrono::duration<double>(slice).count()));
    if (bytes > 0) {
      const comm::Message out{(rank + 1) % size, arena.data(), bytes};
      const comm::Message in{(rank + size - 1) % size, arena.data() + most_bytes, bytes};
      group.send_recv({&out, 1}, {&in, 1}, "traffic");
      moved += bytes;
      if (rank == 0) file.report({moved, cpu_seconds()});
    }
    // A slice that took too long shortens the next, but no pause is made up for later.
    next = std::max(next + slice, Clock::now() - slice);
    std::this_thread::sleep_until(next);
  }
}

}  // namespace

void TrafficFile::ask(double bytes_per_second) const {
  replace(file_, bytes_per_second == stop ? "stop" : fmt::format("{:.0f}", bytes_per_second));
}

double TrafficFile::asked() const {
  std::string text;
  std::ifstream(file_) >> text;
  return text == "stop" ? stop : std::max(0.0, std::strtod(text.c_str(), nullptr));
}

void TrafficFile::report(const Moved& moved) const {
  replace(file_.string() + ".moved", fmt::format("{} {}", moved.bytes, moved.cpu_seconds));
}

TrafficFile::Moved TrafficFile::moved() const {
  Moved moved;
  std::ifstream(file_.string() + ".moved") >> moved.bytes >> moved.cpu_seconds;
  return moved;
}

void make_traffic(comm::Transport& transport, const TrafficFile& file) {
  const auto group = transport.make_group("traffic", std::chrono::minutes(10));
  RankThreads threads;
  for (int r = 0; r < transport.local_count(); ++r) {
    threads.start([&, r] {
      const auto arena = transport.make_arena(transport.first_local() + r, core::Tier::device, 2 * most_bytes);
      comm::Communicator& own = *group[static_cast<size_t>(r)];
      try {
        serve(own, *arena, file);
      } catch (const std::exception& error) {
        own.abort(error.what());
        throw;
      }
    });
  }
  for (const std::exception_ptr& error : threads.join(std::chrono::seconds(5), {})) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace zrt::runtime
