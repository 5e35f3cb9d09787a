// Measures what sparse attention takes of the time of dense attention; it is no test. `test_models "[measures]"` prints
// it, with `--device cuda` that of a GPU; docs/benchmarks/sparse.md says what was seen.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "catch.h"
#include "models/kernels/attention.h"
#include "tests/device.h"
#include "tests/models/kernel_data.h"

namespace zrt::attention_speed {

using namespace zrt::models;
using namespace zrt::test;

namespace {

struct Way {
  const char* name;
  AttentionPattern pattern;
  int64_t document = 0;  // tokens of each document of a sample; 0: a sample is one
};

// Scores that samples of documents need, as a share of those that dense attention has.
double share(const Way& way, int64_t T) {
  if (way.document == 0) return way.pattern.share(T);
  const double all = static_cast<double>(T), length = std::min(static_cast<double>(way.document), all);
  return all / length * length * (length + 1) / (all * (all + 1));
}

// Buffers of one way, so that ways can be timed in turns.
class Run {
 public:
  explicit Run(const AttentionShape& s, int64_t document = 0)
      : shape_(s),
        positions_(DType::f32, s.B * s.T),
        qkv_(KernelBuffer::random(s.type, s.B * s.T * s.row())),
        out_(KernelBuffer::random(s.type, s.B * s.T * s.C())),
        d_out_(KernelBuffer::random(s.type, s.B * s.T * s.C())),
        d_qkv_(s.type, s.B * s.T * s.row()),
        lse_(DType::f32, s.B * s.heads * s.T),
        space_(DType::f32, static_cast<int64_t>(
                               std::max(attention_forward_workspace(s), attention_backward_workspace(s)) / 4 + 1)) {
    if (document == 0) return;
    auto* const places = reinterpret_cast<int32_t*>(positions_.host_bytes().data());
    for (int64_t row = 0; row < s.B * s.T; ++row) places[row] = static_cast<int32_t>(row % s.T % document);
    shape_.positions = static_cast<const int32_t*>(static_cast<const KernelBuffer&>(positions_).data());
  }
  void forward() { attention_forward(shape_, qkv_.data(), out_.data(), lse_.floats(), {}, 0, space()); }
  void backward() {
    attention_backward(shape_, qkv_.data(), out_.data(), lse_.floats(), d_out_.data(), d_qkv_.data(), {}, 0, space());
  }

 private:
  std::byte* space() { return static_cast<std::byte*>(space_.data()); }
  AttentionShape shape_;
  KernelBuffer positions_;  // words by their size alone
  KernelBuffer qkv_, out_, d_out_, d_qkv_, lse_, space_;
};

// Returns the seconds of a call, the mean of `times` calls that follow each other.
double seconds(int times, const std::function<void()>& call) {
  settle();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) call();
  settle();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / times;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Times ways in turns, the first of which is the measure.
void compare(const std::vector<Way>& ways, std::initializer_list<int64_t> lengths) {
  const bool gpu = test_device() == core::DeviceKind::cuda;
  fmt::print("{:5} {:40} {:>7} {:>11} {:>7} {:>11} {:>7} {:>7}\n", "T", "pattern", "kept", "forward ms", "÷ dense",
             "backward ms", "÷ dense", "both");
  for (const int64_t T : lengths) {
    const int64_t B = gpu ? 16384 * 2 / T : 1;
    std::vector<Run> runs;
    runs.reserve(ways.size());
    for (const Way& way : ways) {
      AttentionShape shape{B, T, gpu ? 16 : 8, gpu ? 16 : 8, 64, gpu ? DType::bf16 : DType::f32, 0, 0, 0, way.pattern};
      shape.documents = way.document > 0;
      runs.emplace_back(shape, way.document);
      runs.back().forward(), runs.back().backward();
    }
    std::vector<std::vector<double>> forward(ways.size()), backward(ways.size());
    const int rounds = gpu ? 15 : 9, times = gpu ? 5 : 1;
    for (int round = 0; round < rounds; ++round) {
      for (size_t way = 0; way < ways.size(); ++way) {
        forward[way].push_back(seconds(times, [&] { runs[way].forward(); }));
        backward[way].push_back(seconds(times, [&] { runs[way].backward(); }));
      }
    }
    for (size_t way = 0; way < ways.size(); ++way) {
      const double f = median(forward[way]), b = median(backward[way]);
      std::vector<double> ratio_f, ratio_b, ratio;
      for (size_t i = 0; i < static_cast<size_t>(rounds); ++i) {
        ratio_f.push_back(forward[way][i] / forward[0][i]), ratio_b.push_back(backward[way][i] / backward[0][i]);
        ratio.push_back((forward[way][i] + backward[way][i]) / (forward[0][i] + backward[0][i]));
      }
      fmt::print("{:5} {:40} {:7.3f} {:11.3f} {:7.3f} {:11.3f} {:7.3f} {:7.3f}\n", T, ways[way].name,
                 share(ways[way], T), f * 1e3, median(ratio_f), b * 1e3, median(ratio_b), median(ratio));
    }
  }
}

}  // namespace

TEST_CASE("time of sparse attention by time of dense attention", "[.measures]") {
  using Kind = AttentionPattern::Kind;
  compare({{"dense", {}},
           {"fixed, 8 blocks of 16, 1 of 8 global", {Kind::fixed, true, false, 16, 8, 1, 8}},
           {"sliding, 16 blocks of 16, 1 global", {Kind::sliding, true, false, 16, 16, 1, 1}}},
          {512, 2048, 4096});
}

TEST_CASE("time of attention in samples of documents by time of dense attention", "[.measures]") {
  compare({{"one document", {}},
           {"the same, by documents", {}, 4096},
           {"documents of 512 tokens", {}, 512},
           {"documents of 128 tokens", {}, 128},
           {"documents of 32 tokens", {}, 32}},
          {2048, 4096});
}

// All ways have as many multiply-adds: so many heads of 128 elements, or half as many of 256.
TEST_CASE("time of attention of wide heads and of windows by time of heads of 128", "[.measures]") {
  const bool gpu = test_device() == core::DeviceKind::cuda;
  struct Wide {
    const char* name;
    int64_t heads, width;
    float cap;
    int64_t window;  // 0: none
  };
  const Wide ways[] = {{"heads of 128", 8, 128, 0, 0},
                       {"heads of 256", 4, 256, 0, 0},
                       {"heads of 256, capped", 4, 256, 50, 0},
                       {"heads of 128, window of 512", 8, 128, 0, 512},
                       {"heads of 256, window of 512", 4, 256, 0, 512}};
  fmt::print("{:5} {:28} {:>11} {:>7} {:>11} {:>7} {:>7}\n", "T", "way", "forward ms", "ratio", "backward ms", "ratio",
             "both");
  for (const int64_t T : {1024, 4096}) {
    const int64_t B = gpu ? 16384 * 2 / T : 1;
    std::vector<Run> runs;
    for (const Wide& way : ways) {
      const AttentionPattern pattern = way.window > 0 ? AttentionPattern::of_window(way.window, T) : AttentionPattern{};
      runs.emplace_back(AttentionShape{B, T, way.heads, way.heads / 2, way.width, gpu ? DType::bf16 : DType::f32, 0, 0,
                                       0, pattern, 0, way.cap});
      runs.back().forward(), runs.back().backward();
    }
    std::vector<std::vector<double>> forward(std::size(ways)), backward(std::size(ways));
    for (int round = 0; round < 5; ++round) {
      for (size_t way = 0; way < std::size(ways); ++way) {
        forward[way].push_back(seconds(1, [&] { runs[way].forward(); }));
        backward[way].push_back(seconds(1, [&] { runs[way].backward(); }));
      }
    }
    const double f0 = median(forward[0]), b0 = median(backward[0]);
    for (size_t way = 0; way < std::size(ways); ++way) {
      const double f = median(forward[way]), b = median(backward[way]);
      fmt::print("{:5} {:28} {:11.3f} {:7.3f} {:11.3f} {:7.3f} {:7.3f}\n", T, ways[way].name, f * 1e3, f / f0, b * 1e3,
                 b / b0, (f + b) / (f0 + b0));
    }
  }
}

}  // namespace zrt::attention_speed
