// Adafactor on ranks that have slices of tensors, against the same step of the whole tensors.
#include <cmath>

#include "catch.h"
#include "core/philox.h"
#include "optimizer/optimizer.h"
#include "tests/device.h"

namespace zrt::optimizer::slices_test {
namespace {

using test::Visible;

struct Case {
  std::vector<int64_t> shape;
  size_t dimension;
  int64_t sections;
};
// Every dimension of vectors, matrices and stacks of matrices; some parts have padding, or nothing else.
const Case cases[] = {{{34}, 0, 1},      {{36}, 0, 3},         {{7, 130}, 0, 1},    {{6, 65}, 0, 3},
                      {{5, 66}, 1, 3},   {{130, 7}, 1, 1},     {{3, 5, 9}, 0, 1},   {{3, 5, 9}, 1, 1},
                      {{3, 5, 9}, 2, 3}, {{2, 3, 4, 5}, 1, 3}, {{2, 3, 4, 5}, 0, 1}};

float value(uint32_t tensor, int64_t element) {
  return core::random_normal({.seed = 3, .tensor = tensor}, static_cast<uint64_t>(element)) * 0.1f;
}

// `data` ranks that share the states of each of `tensor` ranks' parts of one parameter; every one updates its shard.
class Ranks {
 public:
  Ranks(const Case& of, int tensor, int data, bool momentum) : tensor_(tensor), data_(data) {
    AdafactorParams params;
    params.momentum = momentum, params.beta1 = 0.9, params.weight_decay = 0.01;
    optimizer_ = make_optimizer(params);
    param_ = models::sliced({"p", of.shape, {}, 0}, of.dimension, tensor, of.sections);
    unit_.params.push_back({&param_, 0, 0});
    if (param_.slice) unit_.holder_axes = unit_.shard_axes | core::Axis::tensor;
    const int64_t multiple = 64 * data;
    unit_.elements = (param_.elements() + multiple - 1) / multiple * multiple;
    unit_.shard = unit_.elements / data;
    decision_.resize(1);
    for (int rank = 0; rank < tensor * data; ++rank) {
      Rank& made = ranks_.emplace_back();
      made.weights = part(rank, 0);
      for (const UnitState& kind : optimizer_->states(unit_)) {
        made.states.emplace_back(static_cast<size_t>(kind.sharded ? unit_.shard : kind.elements));
      }
      made.work.assign(optimizer_->work_bytes(unit_), std::byte{0x7f});  // as floats: large, but finite
    }
  }

  void step(uint32_t number) {
    Decision& decision = decision_[0];
    optimizer_->decide({}, progress_, decision);
    decision.grad_squares = 0;
    for (int64_t i = 0; i < param_.whole_elements(); ++i) {
      decision.grad_squares += std::pow(static_cast<double>(value(number, i)), 2);
    }
    for (size_t r = 0; r < ranks_.size(); ++r) ranks_[r].grad = part(static_cast<int>(r), number);
    const auto count = static_cast<int>(ranks_.size());
    for (uint32_t round = 0; round < optimizer_->rounds(unit_); ++round) {
      const uint64_t bytes = optimizer_->share_bytes(unit_, round);
      Visible<std::byte> shares(bytes * ranks_.size(), std::byte{0xFB});
      each([&](size_t r, const UnitPart& part) { optimizer_->sum(round, decision, part, shares.data() + r * bytes); });
      each([&](size_t, const UnitPart& part) { optimizer_->fold(round, decision, part, shares.data(), count); });
    }
    each([&](size_t, const UnitPart& part) { optimizer_->update(decision, part); });
  }

  // The whole tensor's weights. What is beyond it is zero.
  std::vector<float> weights() const {
    std::vector<float> whole(static_cast<size_t>(param_.whole_elements()));
    for (int t = 0; t < tensor_; ++t) {
      for (int d = 0; d < data_; ++d) {
        const Visible<float>& shard = ranks_[static_cast<size_t>(d * tensor_ + t)].weights;
        const int64_t begin = d * unit_.shard, end = std::min(begin + unit_.shard, param_.elements());
        models::for_each_piece(param_, t, begin, end, [&](const models::Piece& piece) {
          for (int64_t i = 0; i < piece.count; ++i) {
            const float weight = shard[static_cast<size_t>(piece.begin - begin + i)];
            if (piece.whole >= 0) whole[static_cast<size_t>(piece.whole + i)] = weight;
            if (piece.whole < 0 && weight != 0) FAIL("padding became " << weight);
          }
        });
      }
    }
    return whole;
  }
  // Returns the states that are of the whole tensor.
  std::vector<Visible<float>> statistics(size_t rank) const {
    std::vector<Visible<float>> all;
    const auto kinds = optimizer_->states(unit_);
    for (size_t k = 0; k < kinds.size(); ++k) {
      if (!kinds[k].sharded) all.push_back(ranks_[rank].states[k]);
    }
    return all;
  }
  size_t count() const { return ranks_.size(); }

 private:
  struct Rank {
    Visible<float> weights, grad;
    std::vector<Visible<float>> states;
    Visible<std::byte> work;
  };

  // Returns what a rank has of the values of a tensor.
  Visible<float> part(int rank, uint32_t tensor) const {
    Visible<float> values(static_cast<size_t>(unit_.shard));
    const int64_t begin = rank / tensor_ * unit_.shard, end = std::min(begin + unit_.shard, param_.elements());
    models::for_each_piece(param_, rank % tensor_, begin, end, [&](const models::Piece& piece) {
      for (int64_t i = 0; i < piece.count && piece.whole >= 0; ++i) {
        values[static_cast<size_t>(piece.begin - begin + i)] = value(tensor, piece.whole + i);
      }
    });
    return values;
  }

  template <class Body>
  void each(const Body& body) {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      UnitPart part;
      part.unit = &unit_, part.tensor_rank = static_cast<int>(r) % tensor_;
      part.begin = static_cast<int64_t>(r) / tensor_ * unit_.shard, part.count = unit_.shard;
      part.master = rank.weights.data(), part.grad = rank.grad.data(), part.work = rank.work.data();
      std::vector<float*> states;
      for (Visible<float>& state : rank.states) states.push_back(state.data());
      part.states = states;
      body(r, part);
      test::settle();
    }
  }

  OptimizerPtr optimizer_;
  int tensor_, data_;
  models::Param param_;
  Unit unit_;
  Progress progress_;
  Visible<Decision> decision_;
  std::vector<Rank> ranks_;
};

}  // namespace

TEST_CASE("Adafactor's statistics of a sliced tensor are the whole one's to the bit, and its steps to rounding") {
  for (const Case& of : cases) {
    for (const bool momentum : {false, true}) {
      Ranks whole(of, 1, 1, momentum);
      for (uint32_t step = 1; step <= 3; ++step) whole.step(step);
      const std::vector<float> expected = whole.weights();
      for (const int tensor : {1, 2, 3, 4}) {
        for (const int data : {1, 2}) {
          Ranks ranks(of, tensor, data, momentum);
          for (uint32_t step = 1; step <= 3; ++step) ranks.step(step);
          CAPTURE(of.shape, of.dimension, of.sections, tensor, data, momentum);
          for (size_t r = 0; r < ranks.count(); ++r) CHECK(ranks.statistics(r) == whole.statistics(0));
          const std::vector<float> weights = ranks.weights();
          for (size_t i = 0; i < weights.size(); ++i) CHECK(std::fabs(weights[i] - expected[i]) < 1e-7f);
        }
      }
    }
  }
}

}  // namespace zrt::optimizer::slices_test
