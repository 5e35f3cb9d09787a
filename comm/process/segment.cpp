#include "comm/process/segment.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <thread>
#include <utility>

namespace zrt::comm {
namespace {

constexpr size_t kept_records = 8;
constexpr int64_t quiet_nanoseconds = 1000000000;

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct PlainRecord {
  uint64_t sequence, bytes;
  uint32_t kind, finished;
  double start_seconds, end_seconds;
  char label[88];
};

// Written by one process while others may read: a reader checks that the version is even and did not change.
struct SharedRecord {
  std::atomic<uint32_t> version;
  std::atomic<uint64_t> words[sizeof(PlainRecord) / 8];

  void write(const PlainRecord& record) {
    version.fetch_add(1);
    for (size_t i = 0; i < std::size(words); ++i) {
      uint64_t word;
      std::memcpy(&word, reinterpret_cast<const char*>(&record) + 8 * i, 8);
      words[i].store(word);
    }
    version.fetch_add(1);
  }
  bool read(PlainRecord& record) const {
    const uint32_t before = version.load();
    for (size_t i = 0; i < std::size(words); ++i) {
      const uint64_t word = words[i].load();
      std::memcpy(reinterpret_cast<char*>(&record) + 8 * i, &word, 8);
    }
    return before % 2 == 0 && version.load() == before && record.sequence > 0;
  }
};
static_assert(sizeof(PlainRecord) % 8 == 0);

struct alignas(64) MemberState {
  std::atomic<uint32_t> bell, sleeping;
  std::atomic<int64_t> waiting_since;  // 0: not waiting
  SharedRecord records[kept_records];
};

struct Slot {
  FrameKind kind;
  uint32_t bytes;
  std::byte data[frame_bytes];
};

// One direction of a channel: frames [read, written) are on their way.
struct alignas(64) Ring {
  std::atomic<uint32_t> written;
  alignas(64) std::atomic<uint32_t> read;
  Slot slots[frames_in_flight];
};

static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

}  // namespace

constexpr size_t most_members = 1024;

struct Segment::Layout {
  alignas(4096) uint32_t reached[most_members];  // alone on their page, which streams see
  std::atomic<uint32_t> claimed;
  std::atomic<uint32_t> aborted;  // 1: the reason is being written, 2: it is there
  char reason[60 << 10];
  MemberState members[1];  // then the rest of them, then the rings

  static uint64_t bytes(uint64_t members) {
    return sizeof(Layout) + members * sizeof(MemberState) + members * members * sizeof(Ring);
  }
  Ring& ring(int count, int from, int to) { return reinterpret_cast<Ring*>(members + count)[from * count + to]; }
};

namespace {

class RingChannel final : public Channel {
 public:
  RingChannel(Segment& segment, int peer, Ring& out, Ring& in) : segment_(segment), peer_(peer), out_(out), in_(in) {}

  bool send(FrameKind kind, std::span<const std::byte> bytes) override {
    const uint32_t at = out_.written.load(std::memory_order_relaxed);
    if (at - out_.read.load(std::memory_order_acquire) == frames_in_flight) return false;
    Slot& slot = out_.slots[at % frames_in_flight];
    slot.kind = kind;
    slot.bytes = static_cast<uint32_t>(bytes.size());
    if (!bytes.empty()) std::memcpy(slot.data, bytes.data(), bytes.size());
    out_.written.store(at + 1, std::memory_order_release);
    segment_.ring(peer_);
    return true;
  }
  bool flushed() override { return true; }
  std::optional<Frame> receive() override {
    const uint32_t at = in_.read.load(std::memory_order_relaxed);
    if (at == in_.written.load(std::memory_order_acquire)) return std::nullopt;
    const Slot& slot = in_.slots[at % frames_in_flight];
    return Frame{slot.kind, {slot.data, slot.bytes}};
  }
  void pop() override {
    const bool was_full = in_.written.load(std::memory_order_acquire) - in_.read.load() == frames_in_flight;
    in_.read.fetch_add(1, std::memory_order_release);
    if (was_full) segment_.ring(peer_);
  }

 private:
  Segment& segment_;
  int peer_;
  Ring &out_, &in_;
};

}  // namespace

Segment::Segment(int members)
    : memory_("zrt group", Layout::bytes(static_cast<uint64_t>(members))), members_(members) {}

Segment::Segment(int pid, int file, int members)
    : memory_(pid, file, Layout::bytes(static_cast<uint64_t>(members)), true), members_(members) {}

// Zeroed memory is a valid state of every part.
Segment::Layout& Segment::layout() const {
  return *reinterpret_cast<Layout*>(memory_.data());
}

uint32_t Segment::bell(int member) const {
  return layout().members[member].bell.load();
}

void Segment::sleep(int member, uint32_t seen, int64_t nanoseconds) {
  MemberState& state = layout().members[member];
  state.sleeping.store(1);
  if (state.bell.load() == seen) wait_on(reinterpret_cast<uint32_t*>(&state.bell), seen, nanoseconds);
  state.sleeping.store(0);
}

void Segment::ring(int member) {
  MemberState& state = layout().members[member];
  state.bell.fetch_add(1);
  if (state.sleeping.load() != 0) wake(reinterpret_cast<uint32_t*>(&state.bell));
}

void Segment::set_waiting(int member, bool waiting) {
  layout().members[member].waiting_since.store(waiting ? now() : 0, std::memory_order_relaxed);
}

bool Segment::is_waiting(int member) const {
  const int64_t since = layout().members[member].waiting_since.load(std::memory_order_relaxed);
  return since != 0 && now() - since < quiet_nanoseconds;
}

void Segment::abort(const std::string& reason) {
  Layout& all = layout();
  uint32_t none = 0;
  if (!all.aborted.compare_exchange_strong(none, 1)) return;
  std::memcpy(all.reason, reason.data(), std::min(reason.size(), sizeof all.reason - 1));
  all.aborted.store(2);
  for (int m = 0; m < members_; ++m) ring(m);
}

std::string Segment::reason() const {
  const Layout& all = layout();
  if (all.aborted.load() == 0) return "";
  // Another process writes it just now, unless it has ended meanwhile.
  const int64_t deadline = now() + quiet_nanoseconds;
  while (all.aborted.load() != 2 && now() < deadline) std::this_thread::yield();
  return all.aborted.load() == 2 ? all.reason : "a process that has ended since gave up the group, without a reason";
}

bool Segment::claim() {
  return layout().claimed.exchange(1) == 0;
}

void Segment::keep_record(int member, const FlightRecord& record) {
  PlainRecord plain{record.sequence,
                    record.bytes,
                    static_cast<uint32_t>(record.kind),
                    record.finished ? 1u : 0u,
                    record.start_seconds,
                    record.end_seconds,
                    {}};
  size_t kept = std::min(record.label.size(), sizeof plain.label - 1);
  while (kept < record.label.size() && kept > 0 && (record.label[kept] & 0xC0) == 0x80) --kept;  // within a character
  std::memcpy(plain.label, record.label.data(), kept);
  layout().members[member].records[record.sequence % kept_records].write(plain);
}

std::vector<FlightRecord> Segment::records(int member) const {
  std::vector<FlightRecord> list;
  for (const SharedRecord& kept : layout().members[member].records) {
    PlainRecord plain;
    if (!kept.read(plain)) continue;
    const auto kind = static_cast<CollectiveKind>(std::min<uint32_t>(plain.kind, collective_kind_count - 1));
    list.push_back(
        {plain.sequence, kind, plain.label, plain.bytes, plain.finished != 0, plain.start_seconds, plain.end_seconds});
  }
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  return list;
}

uint32_t* Segment::reached(int member) {
  std::call_once(streams_,
                 [&] { words_ = std::make_unique<core::StreamWords>(layout().reached, sizeof layout().reached); });
  return &layout().reached[member];
}

uint32_t Segment::reached_now(int member) const {
  return std::atomic_ref(layout().reached[member]).load(std::memory_order_relaxed);
}

// Words are compared cyclically: a quarter of the way around is beyond any that a stream waits for.
void Segment::release(int member, uint32_t own) {
  const std::atomic_ref word(layout().reached[member]);
  uint32_t now = word.load();
  while (static_cast<int32_t>(now - own) < 0 && !word.compare_exchange_weak(now, now + (1u << 30))) {
  }
}

std::unique_ptr<Channel> Segment::channel(int member, int peer) {
  Layout& all = layout();
  return std::make_unique<RingChannel>(*this, peer, all.ring(members_, member, peer), all.ring(members_, peer, member));
}

}  // namespace zrt::comm
