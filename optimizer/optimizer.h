// An optimizer as a strategy: what it keeps, what a step decides for it, the sums it needs over ranks, and the update
// of a rank's part of a unit. Every number it writes must be a function of the element and of exact sums alone, so that
// shards, units and instruction sets do not show in the result.
//
// A step calls decide once for each member; then, for each unit, `rounds` times: sum on every rank's shard, an exchange
// of what the sums wrote, fold on every rank alike; then update. An optimizer that works on whole matrices has, in
// place of rounds: propose on every rank's part, an exchange that brings each unit's proposals together on one rank,
// refine there, and an exchange back. On a skipped step only the exchanges happen, and refine, of numbers that nobody
// uses; and an update writes weights that have a master as they were, for what it writes to may hold nothing yet.
//
// sum, fold, propose, refine and update run at core::place(). On a GPU the decision, like all that a part points to,
// lies in its memory: the reference is an address that only kernels follow.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "core/dtype.h"
#include "optimizer/params.h"
#include "optimizer/schedule.h"
#include "optimizer/state.h"

namespace zrt::optimizer {

// A run may use several side by side, each for parameters of its own (groups.h).
inline constexpr uint32_t most_members = 4;

// Says how far training is: part of what a checkpoint keeps.
struct Progress {
  uint64_t updates = 0;  // steps taken; skipped ones do not count
  double beta1_power = 1, beta2_power = 1;
};

// Holds what one step decides; lies in the control block, alike on all ranks. On a skipped step only `skip` is new.
struct Decision {
  uint64_t updates = 0;  // this one included
  uint64_t seed = 0;     // of what is rounded at random; the caller's
  double lr = 0;
  float grad_scale = 1;        // multiplies gradients: 1 / loss scale, and the clip factor
  double grad_squares = 0;     // sum over the model of the squares of scaled gradients, to a relative 1e-6
  float beta1 = 0, beta2 = 0;  // of Adam and Lion, as scheduled
  float bias_correction1 = 1;  // of Adam: 1 - beta1^t, or 1
  float bias_correction2 = 1;
  double statistics_beta = 0;  // of Adafactor: what its statistics keep
  uint32_t skip = 0;           // 1: loss or gradient are not finite, nothing moves
};

// The part of a unit that a call works on: elements [begin, begin + count), multiples of 64. All pointers but work and
// those of states that are not sharded lie at `begin`.
struct UnitPart {
  const Unit* unit = nullptr;
  int64_t begin = 0, count = 0;
  int tensor_rank = 0;  // among those that have parts of the unit's tensors
  int expert_rank = 0;  // among those that each have a tensor in the place of the unit's
  // fp32 weights; null where there are none beside `weight`, which is bf16 then and rounded at random.
  float* master = nullptr;
  const void* grad = nullptr;
  core::DType grad_type = core::DType::f32;
  void* weight = nullptr;  // copy of the new weights in weight_type; null where the master is the weight
  core::DType weight_type = core::DType::f32;
  std::span<float* const> states;  // in the order of states(); of one in another form than fp32 its first byte
  std::byte* work = nullptr;       // work_bytes; from the first fold to the update
  float* proposal = nullptr;       // where the optimizer refines: an element each
};

// Tells people about a group of parameters.
struct GroupFacts {
  const char* optimizer;
  double weight_decay, lr_scale;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual GroupFacts facts(uint32_t group) const = 0;
  // Parameters of different groups are never in one unit: Unit::group (groups.h). `hidden`: used by blocks between the
  // first and the last alone, so neither of an embedding nor of the head.
  virtual uint32_t group_of(const models::Param&, bool /*hidden*/) const { return 0; }
  // Returns the same optimizer for a group that multiplies the learning rate, and perhaps has a weight decay of its
  // own.
  virtual std::shared_ptr<const Optimizer> regrouped(std::optional<double> weight_decay, double lr_scale) const = 0;
  // Several optimizers side by side decide each for itself.
  virtual uint32_t members() const { return 1; }
  virtual const Optimizer& member(uint32_t) const { return *this; }
  virtual uint32_t member_of(const Unit&) const { return 0; }

  // Returns states in the order in which StateBuffers and ops name them; none of a frozen unit. The unit must outlive
  // the result.
  std::vector<UnitState> states(const Unit& unit) const {
    return unit.trained ? states_of(unit) : std::vector<UnitState>();
  }
  // Parameters and shards must start at a multiple of it, so that no block of a state's form is cut: a Cut's alignment.
  virtual int64_t alignment() const { return unit_alignment; }
  virtual bool has_betas() const { return false; }  // that a schedule may cycle
  // The setting by which it makes the rate itself, whatever a schedule says; null: it does not.
  virtual const char* rate_setting() const { return nullptr; }

  // Counts one more step and fills `decision`, but for seed, grad_scale, grad_squares and skip. Runs on the host before
  // the gradients exist. The default takes lr alone.
  virtual void decide(const Rates& rates, Progress& progress, Decision& decision) const;

  // Sums over ranks. What a rank shares in a round has the same size on all of them; it must be written whole.
  virtual uint32_t rounds(const Unit&) const { return 0; }
  virtual bool shares_sums() const { return false; }  // whether any unit has rounds
  virtual uint64_t work_bytes(const Unit&) const { return 0; }
  virtual uint64_t share_bytes(const Unit&, uint32_t) const { return 0; }
  virtual void sum(uint32_t /*round*/, const Decision&, const UnitPart& /*shard*/, std::byte* /*share*/) const {}
  // Reads the shares of all ranks, one behind the other; of a sliced unit those of tensor-parallel neighbours follow
  // each other. Only unit, tensor_rank, states and work of the part are set.
  virtual void fold(uint32_t /*round*/, const Decision&, const UnitPart&, const std::byte* /*shares*/,
                    int /*ranks*/) const {}

  // True where parameters of a group are refined; each is a unit of its own then. propose writes the part's proposal,
  // and may change its states; refine works on the whole of it, of the parts of all tensor-parallel ranks, on the
  // device; update finds it in the part again.
  virtual bool refines(uint32_t /*group*/) const { return false; }
  virtual void propose(const Decision&, const UnitPart&) const {}
  virtual uint64_t refine_bytes(const Unit&) const { return 0; }  // of its workspace
  virtual double refine_flops(const Unit&) const { return 0; }
  virtual void refine(const Unit&, float* /*proposal*/, std::byte* /*workspace*/) const {}

  virtual void update(const Decision& decision, const UnitPart& part) const = 0;

  // True where ranks exchange something for the update of a unit, which they do on the device.
  bool exchanges(const Unit& unit) const { return unit.trained && (rounds(unit) > 0 || refines(unit.group)); }

 protected:
  virtual std::vector<UnitState> states_of(const Unit& unit) const = 0;  // of a trained one; may be none
};

using OptimizerPtr = std::shared_ptr<const Optimizer>;

// One maker per optimizer, each in its own file. A new optimizer declares its own in NAME_rule.h, as Muon does.
OptimizerPtr make_optimizer(const AdamParams& params);
OptimizerPtr make_optimizer(const SgdParams& params);
OptimizerPtr make_optimizer(const LionParams& params);
OptimizerPtr make_optimizer(const AdafactorParams& params);

// An optimizer with its hyperparameters.
template <class Params>
class OptimizerWith : public Optimizer {
 public:
  explicit OptimizerWith(const Params& params) : params_(params) {}
  const Params& params() const { return params_; }
  GroupFacts facts(uint32_t) const override {
    return {params_.name(), static_cast<double>(params_.weight_decay), params_.lr_scale};
  }
  OptimizerPtr regrouped(std::optional<double> weight_decay, double lr_scale) const override {
    Params params = params_;
    if (weight_decay) params.weight_decay = static_cast<decltype(params.weight_decay)>(*weight_decay);
    params.lr_scale *= lr_scale;
    return make_optimizer(params);
  }

 protected:
  Params params_;
};

// Returns the parameters of an optimizer that has such; null: it is another.
template <class Params>
const Params* find_params(const OptimizerPtr& optimizer) {
  const auto* with = dynamic_cast<const OptimizerWith<Params>*>(optimizer.get());
  return with == nullptr ? nullptr : &with->params();
}

}  // namespace zrt::optimizer
