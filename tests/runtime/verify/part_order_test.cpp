// The order of a block's runs of parts that the verifier holds programs to, written down by hand.
#include "runtime/verify/part_order.h"

#include "catch.h"
#include "tests/runtime/harness.h"

namespace zrt::part_order_test {

using namespace zrt;
using namespace zrt::testing;
using namespace zrt::runtime;
using models::Half;
using verification::PartOrder;
using verification::PartRun;

namespace {

enum Part : uint8_t { norm_1, attention, norm_2, hidden, projection, output, end };  // of a layer

struct Subject {
  Layout layout;
  explicit Subject(int tensor, bool rows = false, Recompute how = Recompute::none, bool overlap = false)
      : layout([&] {
          Setting s;
          s.tensor = tensor, s.rows = rows, s.recompute = {how}, s.overlap = overlap, s.micro_batch = 1;
          models::LlamaConfig config{.layers = 2,
                                     .hidden = 16,
                                     .heads = 4,
                                     .kv_heads = 2,
                                     .ffn = 24,
                                     .sequence = 5,
                                     .vocab = 31,
                                     .degrees = {tensor, rows}};
          return make_layout(models::make_llama(config), s);
        }()) {}
  PartOrder layer() const { return PartOrder(layout, 1); }
  PartOrder head() const { return PartOrder(layout, 3); }
};

using Runs = std::vector<PartRun>;

}  // namespace

TEST_CASE("a rank that shares blocks with none runs each in one piece") {
  const Subject subject(1, false, Recompute::none, true);
  CHECK(subject.layer().runs(OpKind::forward) == Runs{{{norm_1, end}}});
  CHECK(subject.layer().runs(OpKind::backward) == Runs{{{norm_1, end}}});
  CHECK(subject.layer().runs(OpKind::recompute).empty());
  CHECK(subject.head().runs(OpKind::forward) == Runs{{{0, 1}}});
  CHECK(subject.head().runs(OpKind::evaluate) == Runs{{{0, 3}}});
  CHECK(Subject(1, false, Recompute::full).layer().runs(OpKind::recompute) == Runs{{{norm_1, projection}}});
  CHECK(Subject(1, false, Recompute::selective).layer().runs(OpKind::recompute) == Runs{{{norm_2, projection}}});
}

TEST_CASE("ranks that share a layer end where they leave it forward and where they enter it backward") {
  const Subject subject(2);
  CHECK(subject.layer().runs(OpKind::forward) == Runs{{{norm_1, norm_2}}, {{norm_2, output}}, {{output, end}}});
  CHECK(subject.layer().runs(OpKind::backward) == Runs{{{hidden, end}}, {{attention, hidden}}, {{norm_1, attention}}});
  CHECK(subject.head().runs(OpKind::evaluate) == Runs{{{0, 2}}, {{2, 3}}});
  CHECK(subject.head().runs(OpKind::backward) == Runs{{{2, 3}}, {{1, 2}}, {{0, 1}}});
  CHECK(Subject(2, false, Recompute::full).layer().runs(OpKind::recompute) ==
        Runs{{{norm_1, norm_2}}, {{norm_2, projection}}});
  CHECK(Subject(2, false, Recompute::none, true).layer().runs(OpKind::backward) ==
        Runs{{{hidden, end}, Half::input},
             {{hidden, end}, Half::weight},
             {{attention, hidden}, Half::input},
             {{attention, hidden}, Half::weight},
             {{norm_1, attention}}});
}

TEST_CASE("ranks that share rows end at every port, and make the norms' again") {
  const Subject subject(2, true);
  const Runs forward{
      {{norm_1, attention}}, {{attention, norm_2}}, {{norm_2, hidden}}, {{hidden, output}}, {{output, end}}};
  CHECK(subject.layer().runs(OpKind::forward) == forward);
  CHECK(subject.layer().runs(OpKind::backward) == Runs(forward.rbegin(), forward.rend()));
  CHECK(subject.layer().runs(OpKind::recompute) == Runs{{{norm_2, hidden}}, {{norm_1, attention}}});
  CHECK(subject.head().runs(OpKind::recompute) == Runs{{{0, 1}}});
  CHECK(Subject(2, true, Recompute::selective).layer().runs(OpKind::recompute) ==
        Runs{{{norm_2, hidden}}, {{hidden, projection}}, {{norm_1, attention}}});
  CHECK(Subject(2, true, Recompute::full).layer().runs(OpKind::recompute) ==
        Runs{{{norm_1, attention}}, {{attention, norm_2}}, {{norm_2, hidden}}, {{hidden, projection}}});
}

TEST_CASE("a port has room for all rows, each rank's as many as any has, and for what each of them tells") {
  const models::Shape shape = Subject(2).layout.shape(models::Mode::train);  // 5 rows of 16 fp32
  for (const bool rows : {false, true}) {
    const Subject subject(2, rows);
    const auto& layer = subject.layout.model->blocks[1]->anatomy().ports;
    const auto& head = subject.layout.model->blocks[3]->anatomy().ports;
    for (const models::Port& port : layer) {
      CHECK(subject.layer().port_bytes(port, shape) == (rows ? 6u : 5u) * 16 * 4);
    }
    CHECK(subject.head().port_bytes(head[1], shape) == 5u * 64 * 4);
    CHECK(subject.head().port_bytes(head[2], shape) == 2u * 5 * head[2].element);
  }
}

}  // namespace zrt::part_order_test
