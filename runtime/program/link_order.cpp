#include "runtime/program/link_order.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "core/error.h"

namespace zrt::runtime {
namespace {

// Chunks are numbered over the whole model here: chunk c of stage s is number c × stages + s.
class UnitClock {
 public:
  explicit UnitClock(const Schedule& schedule) : s_(schedule), chunks_(schedule.stages * schedule.chunks) {
    for (auto& ends : ended_) ends.assign(static_cast<size_t>(chunks_) * static_cast<size_t>(s_.microbatches), unknown);
    run();
  }

  const Schedule& schedule() const { return s_; }
  std::vector<Work> with_messages(int32_t stage) const {
    std::vector<Timed> all;
    for (const Work& work : order(s_, stage)) {
      all.push_back({when(*ended(work.kind, number(work, stage), work.microbatch) - 1, true), work});
    }
    // Messages cross the borders of the stage's chunks; both ends of one have the same time and rank among equals.
    for (int32_t chunk = 0; chunk < s_.chunks; ++chunk) {
      const int32_t q = chunk * s_.stages + stage;
      for (int32_t m = 0; m < s_.microbatches; ++m) {
        const auto add = [&](WorkKind kind, bool forward, int32_t from) {
          all.push_back({when(*message(forward, from, m), false, !forward, from, m), {kind, chunk, m}});
        };
        if (q > 0) add(WorkKind::receive_input, true, q - 1), add(WorkKind::send_gradient, false, q);
        if (q + 1 < chunks_) add(WorkKind::send_output, true, q), add(WorkKind::receive_gradient, false, q + 1);
      }
    }
    std::sort(all.begin(), all.end(), [](const Timed& a, const Timed& b) { return a.when < b.when; });
    std::vector<Work> list;
    list.reserve(all.size());
    for (const Timed& timed : all) list.push_back(timed.work);
    return list;
  }

 private:
  static constexpr int32_t unknown = -1;
  struct Timed {
    uint64_t when;
    Work work;
  };
  // Returns a number in the order of time; messages in front of works that begin then; among messages forward ones
  // first, by chunk, of which a model has fewer than 2^12, and microbatch (runtime/plan/setup.cpp, check_sizes).
  static uint64_t when(int32_t time, bool work, bool back = false, int32_t chunk = 0, int32_t microbatch = 0) {
    uint64_t number = static_cast<uint64_t>(time) * 4 + (work ? 2 : 0) + (back ? 1 : 0);
    number = number << 12 | static_cast<uint64_t>(chunk);
    return number << 17 | static_cast<uint64_t>(microbatch);
  }

  int32_t number(const Work& work, int32_t stage) const { return work.chunk * s_.stages + stage; }
  size_t place(int32_t q, int32_t m) const {
    return static_cast<size_t>(q) * static_cast<size_t>(s_.microbatches) + static_cast<size_t>(m);
  }
  std::optional<int32_t> ended(WorkKind kind, int32_t q, int32_t m) const {
    const int32_t end = ended_[static_cast<size_t>(kind)][place(q, m)];
    return end == unknown ? std::nullopt : std::optional(end);
  }

  // Returns when a microbatch's output leaves chunk q, or the gradient of its input: once it is made and has a slot
  // there. Inputs always have one: a chunk has room for one more than it works on.
  std::optional<int32_t> message(bool forward, int32_t q, int32_t m) const {
    const auto made = ended(forward ? WorkKind::forward : WorkKind::backward, q, m);
    if (!made || forward) return made;
    const int32_t to = q - 1, before = m - static_cast<int32_t>(returned_slots(s_, to % s_.stages, to / s_.stages));
    if (before < 0) return made;
    const auto freed = ended(WorkKind::backward, to, before);
    return freed ? std::optional(std::max(*made, *freed)) : std::nullopt;
  }

  // Returns when a work can begin: its input has come, and what it hands on has a slot. Nothing where that is not known
  // yet.
  std::optional<int32_t> ready(const Work& work, int32_t stage) const {
    const int32_t q = number(work, stage), earlier = work.microbatch - static_cast<int32_t>(handed_slots(s_));
    const bool forward = work.kind == WorkKind::forward;
    if (work.kind == WorkKind::weight_gradient) return 0;
    const int32_t from = forward ? q - 1 : q + 1;
    const bool takes = from >= 0 && from < chunks_, gives = (forward ? q + 1 < chunks_ : q > 0) && earlier >= 0;
    const auto taken = takes ? message(forward, from, work.microbatch) : 0;
    const auto given = gives ? message(forward, q, earlier) : 0;
    return taken && given ? std::optional(std::max(*taken, *given)) : std::nullopt;
  }

  void run() {
    std::vector<std::vector<Work>> lists;
    lists.reserve(static_cast<size_t>(s_.stages));
    for (int32_t stage = 0; stage < s_.stages; ++stage) lists.push_back(order(s_, stage));
    std::vector<size_t> done(lists.size());
    std::vector<int32_t> now(lists.size());
    bool all = false;
    while (!all) {
      bool moved = false;
      all = true;
      for (size_t stage = 0; stage < lists.size(); ++stage) {
        for (; done[stage] < lists[stage].size(); ++done[stage], moved = true) {
          const Work& work = lists[stage][done[stage]];
          const auto begin = ready(work, static_cast<int32_t>(stage));
          if (!begin) break;
          now[stage] = std::max(now[stage], *begin) + 1;
          ended_[static_cast<size_t>(work.kind)][place(number(work, static_cast<int32_t>(stage)), work.microbatch)] =
              now[stage];
        }
        all = all && done[stage] == lists[stage].size();
      }
      if (!moved && !all) throw core::ProgramError("the works of a pipeline's stages wait for each other for ever");
    }
  }

  const Schedule s_;
  const int32_t chunks_;                       // of the model
  std::array<std::vector<int32_t>, 3> ended_;  // by kind, chunk and microbatch
};

}  // namespace

uint32_t handed_slots(const Schedule& schedule) {
  return std::min(2u, static_cast<uint32_t>(schedule.microbatches));
}

uint32_t returned_slots(const Schedule& schedule, int32_t stage, int32_t chunk) {
  const bool wraps = stage + 1 == schedule.stages && chunk + 1 < schedule.chunks;
  return static_cast<uint32_t>(std::min(2 + (wraps ? schedule.group - schedule.stages : 0), schedule.microbatches));
}

std::vector<Work> link_order(const Schedule& schedule, int32_t stage) {
  // Stages are compiled one after the other, and in a search one of them again and again.
  static std::mutex mutex;
  static std::shared_ptr<const UnitClock> last;
  static std::pair<int32_t, std::vector<Work>> last_list;  // of a stage
  const std::lock_guard lock(mutex);
  const bool known = last && last->schedule() == schedule;
  if (!known) last_list = {}, last = std::make_shared<const UnitClock>(schedule);
  if (last_list.first != stage || last_list.second.empty()) last_list = {stage, last->with_messages(stage)};
  return last_list.second;
}

}  // namespace zrt::runtime
