#include "runtime/program/order.h"

#include <algorithm>

namespace zrt::runtime {
namespace {

// A list under construction. The k-th forward and the k-th backward of a stage are counted over all its chunks: in
// groups of microbatches, chunk by chunk, the backwards from the last chunk to the first.
class Order {
 public:
  explicit Order(const Schedule& schedule) : s_(schedule), total_(schedule.microbatches * schedule.chunks) {}

  void forward() { add(WorkKind::forward, forwards_++, false); }
  void backward() { add(WorkKind::backward, backwards_++, true); }
  void weight_gradient() { add(WorkKind::weight_gradient, weight_gradients_++, true); }
  // Adds the stage's forwards in front of the first backward, then one of each in turn, then the backwards that are
  // left.
  template <class After>
  void alternate(int32_t warm_up, After after) {
    while (forwards_ < std::min(warm_up, total_)) forward();
    while (backwards_ < total_) {
      if (forwards_ < total_) forward();
      backward();
      after();
    }
  }
  int32_t total() const { return total_; }
  int32_t backwards() const { return backwards_; }
  int32_t weight_gradients() const { return weight_gradients_; }
  std::vector<Work> take() { return std::move(list_); }

 private:
  void add(WorkKind kind, int32_t k, bool back) {
    const int32_t of_group = s_.group * s_.chunks, begin = k / of_group * s_.group;
    const int32_t size = std::min(s_.group, s_.microbatches - begin), in_group = k % of_group;
    const int32_t chunk = in_group / size;
    list_.push_back({kind, back ? s_.chunks - 1 - chunk : chunk, begin + in_group % size});
  }

  const Schedule& s_;
  const int32_t total_;
  int32_t forwards_ = 0, backwards_ = 0, weight_gradients_ = 0;
  std::vector<Work> list_;
};

}  // namespace

std::vector<Work> order(const Schedule& schedule, int32_t stage) {
  Schedule s = schedule;
  if (s.kind != ScheduleKind::interleaved) s.group = s.microbatches;
  const int32_t later = s.stages - 1 - stage;
  Order list(s);
  const auto nothing = [] {};
  switch (s.kind) {
    case ScheduleKind::gpipe:
      list.alternate(s.microbatches, nothing);
      break;
    case ScheduleKind::one_f_one_b:
      list.alternate(later, nothing);
      break;
    case ScheduleKind::interleaved:
      list.alternate(2 * later + (s.chunks - 1) * s.group, nothing);
      break;
    case ScheduleKind::zb_h1:
      // Weight gradients come as many backwards later as there are stages before this one: then all stages keep alike.
      list.alternate(later, [&] {
        if (list.backwards() > stage) list.weight_gradient();
      });
      while (list.weight_gradients() < list.total()) list.weight_gradient();
      break;
  }
  return list.take();
}

std::vector<Work> order(const BlockOrder& blocks) {
  std::vector<Work> list;
  const int32_t last_backward = blocks.first_behind ? 1 : 0;
  for (int32_t first = 0; first < blocks.microbatches; first += blocks.together) {
    const auto each = [&](WorkKind kind, int32_t block) {
      for (int32_t m = first; m < first + blocks.together; ++m) list.push_back({kind, block, m});
    };
    each(WorkKind::load, 0);
    for (int32_t b = 0; b < blocks.blocks; ++b) each(WorkKind::forward, b);
    for (int32_t b = blocks.blocks; b-- > last_backward;) each(WorkKind::backward, b);
  }
  for (int32_t m = 0; m < blocks.microbatches && blocks.first_behind; ++m) list.push_back({WorkKind::backward, 0, m});
  return list;
}

}  // namespace zrt::runtime
