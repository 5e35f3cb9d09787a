// Two rounds of sums. Round 0: squares of gradients by row and column, and of weights; its fold updates the statistics
// and leaves factors in the work buffer. Round 1: squares of the direction; its fold leaves each parameter's clipping.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "optimizer/adafactor_kernels.h"
#include "optimizer/adafactor_layout.h"
#include "optimizer/host_optimizer.h"
#include "optimizer/norm_kernels.h"
#include "optimizer/pieces.h"

namespace zrt::optimizer {
namespace {

constexpr int64_t tile = 1024;  // elements of a direction held at a time

// Of one parameter, in front of the factors in the work buffer.
struct Scale {
  double lr, clip;
};

struct Work {
  Scale* scales;
  float* factors;
};
Work work_of(const UnitPart& part) {
  auto* scales = reinterpret_cast<Scale*>(part.work);
  return {scales, reinterpret_cast<float*>(scales + part.unit->params.size())};
}

// Elements of a parameter that lie in the part.
struct Range {
  int64_t from, to;
};
Range range_of(const UnitPart& part, const UnitParam& param) {
  return {std::max<int64_t>(part.begin - param.offset, 0),
          std::min(part.begin + part.count - param.offset, param.param->elements())};
}

// body(place index, place, first element, count) for tiles of at most `tile` elements from a multiple of 64.
template <class Body>
void for_tiles(const AdafactorLayout& layout, const UnitPart& part, const Body& body) {
  for (size_t p = 0; p < layout.places.size(); ++p) {
    const Range range = range_of(part, *layout.places[p].param);
    if (range.from >= range.to) continue;
    core::parallel_for((range.to - range.from + tile - 1) / tile, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t first = range.from + t * tile;
        body(p, layout.places[p], first, std::min(tile, range.to - first));
      }
    });
  }
}

class Adafactor : public Optimizer {
 public:
  explicit Adafactor(const AdafactorParams& params) : params_(params) {}

  std::vector<UnitState> states(const Unit& unit) const override {
    const AdafactorLayout layout = adafactor_layout(unit);
    UnitState row{"exp_avg_sq_row", core::Category::moment2, false, layout.row_state, {}};
    UnitState column{"exp_avg_sq_col", core::Category::moment2, false, layout.column_state, {}};
    UnitState vector{"exp_avg_sq", core::Category::moment2, false, layout.vectors, {}};
    for (const AdafactorPlace& place : layout.places) {
      std::vector<int64_t> shape = place.param->param->shape;
      if (!place.factored) {
        vector.tensors.push_back({place.param, shape, place.column_state});
        continue;
      }
      std::vector<int64_t> rows(shape.begin(), shape.end() - 1);
      shape.erase(shape.end() - 2);
      row.tensors.push_back({place.param, rows, place.row_state});
      column.tensors.push_back({place.param, shape, place.column_state});
    }
    std::vector<UnitState> states;
    if (params_.momentum) states.push_back(element_wise(unit, "exp_avg", core::Category::moment1));
    for (UnitState* state : {&row, &column, &vector}) {
      if (state->elements > 0) states.push_back(std::move(*state));
    }
    return states;
  }

  void decide(const Rates& rates, Progress& progress, Decision& decision) const override {
    Optimizer::decide(rates, progress, decision);
    if (!params_.relative_step) return;
    const double t = static_cast<double>(decision.updates);
    decision.lr = std::min(params_.warmup_init ? 1e-6 * t : 1e-2, 1 / std::sqrt(t));
  }

  uint32_t rounds() const override { return 2; }
  uint64_t work_bytes(const Unit& unit) const override {
    return unit.params.size() * sizeof(Scale) + static_cast<uint64_t>(adafactor_layout(unit).factors) * sizeof(float);
  }
  uint64_t share_bytes(const Unit& unit, uint32_t round) const override {
    const uint64_t sums = round == 0 ? static_cast<uint64_t>(adafactor_layout(unit).sums) : 0;
    return unit.params.size() * sizeof(ExactSum) + sums * sizeof(double);
  }

  void sum(uint32_t round, const Decision& decision, const UnitPart& part, std::byte* share) const override {
    const AdafactorLayout layout = adafactor_layout(*part.unit);
    std::memset(share, 0, share_bytes(*part.unit, round));
    auto* totals = reinterpret_cast<ExactSum*>(share);  // one per parameter
    if (round == 0) {
      sum_squares(layout, decision, part, totals, reinterpret_cast<double*>(totals + layout.places.size()));
    } else {
      sum_direction(layout, decision, part, totals);
    }
  }

  void fold(uint32_t round, const Decision& decision, const UnitPart& part, const std::byte* shares,
            int ranks) const override {
    const AdafactorLayout layout = adafactor_layout(*part.unit);
    const uint64_t stride = share_bytes(*part.unit, round);
    const Work work = work_of(part);
    for (size_t p = 0; p < layout.places.size(); ++p) {
      ExactSum squares;
      for (int r = 0; r < ranks; ++r) {
        squares.add(reinterpret_cast<const ExactSum*>(shares + static_cast<uint64_t>(r) * stride)[p]);
      }
      const double elements = static_cast<double>(layout.places[p].param->param->elements());
      const double root_mean_square = std::sqrt(squares.value() / elements);
      if (round == 1) {
        work.scales[p].clip = std::max(1.0, root_mean_square / params_.clip_threshold);
        continue;
      }
      work.scales[p].lr = decision.lr * (params_.scale_parameter ? std::max(params_.eps2, root_mean_square) : 1);
      const std::byte* sums = shares + layout.places.size() * sizeof(ExactSum);
      fold_statistics(layout.places[p], decision, part, sums, stride, ranks);
    }
  }

  void update(const Decision& decision, const UnitPart& part) const override {
    const AdafactorLayout layout = adafactor_layout(*part.unit);
    const Work work = work_of(part);
    const auto apply = adafactor_kernels(core::best_isa()).apply[weight_index(part)];
    float* exp_avg = params_.momentum ? part.states[0] : nullptr;
    for_tiles(layout, part, [&](size_t p, const AdafactorPlace& place, int64_t first, int64_t count) {
      float direction[tile];
      make_direction(place, decision, part, work.factors, first, count, direction);
      const Scale& scale = work.scales[p];
      const float beta1 = static_cast<float>(params_.beta1);
      const AdafactorScalars scalars{static_cast<float>(scale.clip), static_cast<float>(scale.lr), beta1, 1.0f - beta1,
                                     static_cast<float>(params_.weight_decay * scale.lr)};
      const int64_t at = place.param->offset + first - part.begin;
      apply(scalars, count, direction, part.master + at, exp_avg ? exp_avg + at : nullptr, weight_at(part, at));
    });
  }

 private:
  void sum_squares(const AdafactorLayout& layout, const Decision& decision, const UnitPart& part, ExactSum* weights,
                   double* sums) const {
    // A scaled gradient rounds to fp32, so the bound has room for more than the sum.
    const Bins bins = make_bins(4 * decision.grad_squares);
    const auto kernel = adafactor_kernels(core::best_isa()).squares[grad_index(part)];
    for (size_t p = 0; p < layout.places.size(); ++p) {
      const AdafactorPlace& place = layout.places[p];
      const auto [from, to] = range_of(part, *place.param);
      if (from >= to) continue;
      const int64_t base = place.param->offset - part.begin;
      for_rows(place, from, to, [&](int64_t row, int64_t column, int64_t count, int64_t element) {
        double unused[bin_count] = {};
        double* rows = place.factored ? sums + place.row_sums + row * bin_count : unused;
        kernel(grad_at(part, base + element), count, decision.grad_scale, bins, rows, sums + place.column_sums + column,
               place.column_count());
      });
      // What lies behind a parameter up to a multiple of 64 is zero.
      const int64_t padded = (to - from + unit_alignment - 1) / unit_alignment * unit_alignment;
      if (params_.scale_parameter) add_squares(weights[p], padded, part.master + base + from, core::DType::f32);
    }
  }

  void sum_direction(const AdafactorLayout& layout, const Decision& decision, const UnitPart& part,
                     ExactSum* totals) const {
    const Work work = work_of(part);
    const auto chunk_squares = norm_kernels(core::best_isa()).chunk_squares[static_cast<size_t>(core::DType::f32)];
    std::mutex mutex;  // the order does not matter: the sum is exact
    for_tiles(layout, part, [&](size_t p, const AdafactorPlace& place, int64_t first, int64_t count) {
      float direction[tile];
      make_direction(place, decision, part, work.factors, first, count, direction);
      const int64_t chunks = (count + unit_alignment - 1) / unit_alignment;
      std::fill(direction + count, direction + chunks * unit_alignment, 0.0f);
      double squares[tile / unit_alignment];
      chunk_squares(direction, chunks, squares);
      ExactSum sum;
      for (int64_t c = 0; c < chunks; ++c) sum.add(squares[c]);
      const std::lock_guard lock(mutex);
      totals[p].add(sum);
    });
  }

  void make_direction(const AdafactorPlace& place, const Decision& decision, const UnitPart& part, const float* factors,
                      int64_t first, int64_t count, float* out) const {
    const auto kernel = adafactor_kernels(core::best_isa()).direction[grad_index(part)];
    for_rows(place, first, first + count, [&](int64_t row, int64_t column, int64_t n, int64_t element) {
      kernel(grad_at(part, place.param->offset + element - part.begin), n, decision.grad_scale,
             place.factored ? factors[place.row_factors + row] : 1.0f, factors + place.column_factors + column,
             out + element - first);
    });
  }

  // New statistics from all ranks' sums, then the factors: 1 / sqrt(row / mean(rows)) and 1 / sqrt(column).
  void fold_statistics(const AdafactorPlace& place, const Decision& decision, const UnitPart& part,
                       const std::byte* sums, uint64_t stride, int ranks) const {
    const double beta2 = 1 - std::pow(static_cast<double>(decision.updates), params_.decay_rate);
    auto advance = [&](float& statistic, int64_t at, int64_t plane, int64_t terms) {
      std::array<double, bin_count> total{};
      for (int r = 0; r < ranks; ++r) {
        const auto* of_rank = reinterpret_cast<const double*>(sums + static_cast<uint64_t>(r) * stride) + at;
        for (int k = 0; k < bin_count; ++k) total[static_cast<size_t>(k)] += of_rank[k * plane];
      }
      const double mean = binned_value(total) / static_cast<double>(terms) + params_.eps1;
      statistic = static_cast<float>(beta2 * static_cast<double>(statistic) + (1 - beta2) * mean);
    };
    float* const factors = work_of(part).factors;
    size_t kind = params_.momentum ? 1 : 0;
    if (place.factored) {
      float* rows = part.states[kind] + place.row_state;
      for (int64_t i = 0; i < place.row_count(); ++i) {
        advance(rows[i], place.row_sums + i * bin_count, 1, place.cols);
      }
      for (int64_t b = 0; b < place.batch; ++b) {
        const float* row = rows + b * place.rows;
        double sum = 0;
        for (int64_t i = 0; i < place.rows; ++i) sum += static_cast<double>(row[i]);
        const double mean = sum / static_cast<double>(place.rows);
        for (int64_t i = 0; i < place.rows; ++i) {
          factors[place.row_factors + b * place.rows + i] =
              static_cast<float>(1 / std::sqrt(static_cast<double>(row[i]) / mean));
        }
      }
      ++kind;
    } else {
      kind = part.states.size() - 1;  // exp_avg_sq is the last
    }
    float* columns = part.states[kind] + place.column_state;
    for (int64_t i = 0; i < place.column_count(); ++i) {
      advance(columns[i], place.column_sums + i, place.column_count(), place.factored ? place.rows : 1);
      factors[place.column_factors + i] = static_cast<float>(1 / std::sqrt(static_cast<double>(columns[i])));
    }
  }

  AdafactorParams params_;
};

}  // namespace

const AdafactorKernels& adafactor_kernels(core::Isa isa) {
  return choose_isa(isa, adafactor_kernels_baseline, adafactor_kernels_v3, adafactor_kernels_v4);
}

std::shared_ptr<const Optimizer> make_optimizer(const AdafactorParams& params) {
  return std::make_shared<Adafactor>(params);
}

}  // namespace zrt::optimizer
