#include "runtime/data/read_ahead.h"

#include <atomic>
#include <chrono>

#include "catch.h"
#include "core/error.h"

namespace zrt::read_ahead_test {

using namespace zrt;
using runtime::data::ReadAhead;
using runtime::data::SampleSource;

namespace {

// Token i of sample n is 100 n + i. Samples from `broken` on cannot be read.
class Numbered final : public SampleSource {
 public:
  explicit Numbered(int64_t broken = INT64_MAX) : broken_(broken) {}
  int64_t size() const override { return 20; }
  int64_t sequence() const override { return 3; }
  void read(int64_t sample, const runtime::data::SampleRows& to) const override {
    ++reads;
    if (sample >= broken_) throw core::DataError("sample " + std::to_string(sample) + " is broken");
    for (int32_t i = 0; i < 3; ++i) {
      to.tokens[i] = static_cast<int32_t>(100 * sample) + i;
      to.targets[i] = to.tokens[i] + 1;
      if (to.positions != nullptr) to.positions[i] = to.tokens[i] + 2;
    }
  }
  int64_t counted(int64_t) const override { return 3; }
  runtime::data::SampleOrigin origin(int64_t sample) const override { return {0, sample, 0}; }
  std::vector<runtime::data::DatasetFacts> datasets() const override { return {}; }
  mutable std::atomic<int> reads{0};

 private:
  int64_t broken_;
};

void check_sample(const SampleSource& source, int64_t sample) {
  int32_t tokens[3], targets[3];
  source.read(sample, {tokens, targets});
  for (int32_t i = 0; i < 3; ++i) {
    CHECK(tokens[i] == 100 * sample + i);
    CHECK(targets[i] == 100 * sample + i + 1);
  }
}

// Waits until the thread has made so many reads of the source.
void await(const Numbered& source, int reads) {
  while (source.reads < reads) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

TEST_CASE("samples of the next step are read while one runs, from the third step on") {
  const auto source = std::make_shared<Numbered>();
  ReadAhead ahead(source);
  int expected = 0;  // reads of the source
  for (int64_t step = 0; step < 5; ++step) {
    ahead.begin_step(4);
    if (step > 0 && step < 4) await(*source, expected += 4);  // of the step behind this one
    const int before = source->reads;
    for (int64_t sample = 4 * step; sample < 4 * step + 4; ++sample) {
      check_sample(ahead, sample);
      check_sample(ahead, sample);  // another stage reads it, too
    }
    const int direct = source->reads - before;
    CHECK(direct == (step < 2 ? 8 : 0));
    expected += direct;
  }
  CHECK(source->reads == 2 * 8 + 3 * 4);
}

TEST_CASE("positions are read ahead for who asks for them") {
  const auto source = std::make_shared<Numbered>();
  ReadAhead ahead(source);
  int reads = 0;
  const auto check_positions = [&](int64_t sample) {
    int32_t tokens[3], targets[3], positions[3];
    ahead.read(sample, {tokens, targets, positions});
    for (int32_t i = 0; i < 3; ++i) CHECK((tokens[i] == 100 * sample + i && targets[i] == tokens[i] + 1));
    for (int32_t i = 0; i < 3; ++i) CHECK(positions[i] == 100 * sample + i + 2);
  };
  for (int64_t step = 0; step < 5; ++step) {
    ahead.begin_step(1);
    if (step > 0) await(*source, ++reads);
    check_sample(ahead, step);  // from a row that has them, too
    check_positions(step);
    if (step < 2) reads += 2;
    CHECK(source->reads == reads);
  }
  check_sample(ahead, 4);
  ahead.begin_step(1);
  await(*source, ++reads);  // sample 6, without positions as the last read was
  check_positions(5);
  ahead.begin_step(1);
  await(*source, ++reads);
  check_positions(6);
  CHECK(source->reads == ++reads);
}

TEST_CASE("a sample that cannot be read ahead is an error where it is read, and not before") {
  const auto source = std::make_shared<Numbered>(4);
  ReadAhead ahead(source);
  ahead.begin_step(2);
  check_sample(ahead, 0);
  ahead.begin_step(2);
  check_sample(ahead, 2);
  await(*source, 3);  // sample 4, by the thread
  ahead.begin_step(2);
  int32_t row[6];
  CHECK_THROWS_AS(ahead.read(4, {row, row + 3}), core::DataError);
}

TEST_CASE("what was expected and is not read is dropped, and other samples are read from the source") {
  const auto source = std::make_shared<Numbered>();
  ReadAhead ahead(source);
  int reads = 0;
  for (const int64_t sample : {0, 2, 9}) {  // 4 and 6 are read ahead
    ahead.begin_step(2);
    if (sample > 0) await(*source, ++reads);
    check_sample(ahead, sample);
    CHECK(source->reads == ++reads);
  }
  ahead.begin_step(2);
  await(*source, ++reads);  // 13
  check_sample(ahead, 4);
  CHECK(source->reads == reads + 1);
}

}  // namespace zrt::read_ahead_test
