// Experts in place of a layer's MLP, of which each of the ranks along core::Axis::expert has as many (expert
// parallelism: Lepikhin et al., "GShard", 2020). The part `route` picks experts and lays rows out as a message to each
// rank; `hidden` and `projection` compute what has come for the experts here; `combine` adds up what comes back. Ranks
// exchange by all-to-all what lies between: rows, the experts that they are for, and their gates.
//
// A message has a place for each pick that an expert takes at most (capacity), or without a capacity for as many picks
// as the rows of a source can have of one rank's experts. It keeps the routing, and of rows that have come, these, the
// gates and the inputs of the nonlinearity.
#pragma once
#include "models/common/expert_bank.h"
#include "models/common/mlp.h"
#include "models/common/router.h"

namespace zrt::models {

class SpreadExpertMlp final : public Mlp {
 public:
  SpreadExpertMlp(const Experts& experts, int64_t hidden, int ranks, const Router& router, const ExpertBank& bank)
      : experts_(experts), hidden_(hidden), ranks_(ranks), router_(router), bank_(bank) {}

  std::vector<Linear> linears(MlpPart) const override { return {}; }
  std::optional<MlpPart> routing_part() const override { return MlpPart::route; }
  int64_t experts() const override { return experts_.number; }
  std::vector<MlpPort> ports() const override;
  int64_t port_rows(const Shape& shape) const override { return router_.shape(shape).slots(); }
  double flops(const Shape& shape, MlpPart part) const override;
  std::vector<GemmSpec> products(const Shape& shape) const override;
  uint64_t forward_scratch(const Shape& shape) const override { return scratch(shape); }
  uint64_t backward_scratch(const Shape& shape) const override { return scratch(shape); }
  uint64_t kept_bytes(const Shape& shape) const override;
  uint64_t routed_bytes(const Shape& shape) const override;
  uint64_t forward_bytes(const Shape& shape) const override;
  void route(const Call& call, const Forward& forward, const void* normed) const override;
  void expand(const Call& call, const Forward& forward, const void* normed) const override;
  void project(const Call& call, const Forward& forward, void* to, const void* add) const override;
  void combine(const Call& call, const Forward& forward, void* to, const void* add) const override;
  uint64_t backward_bytes(const Shape& shape, MlpPart part, Half half) const override;
  void backward_combine(const Call& call, const Backward& backward, const void* d_projected) const override;
  void backward_projection(const Call& call, const Backward& backward, const void* d_projected) const override;
  void backward_hidden(const Call& call, const Backward& backward, const void* normed, void* d_normed) const override;
  void backward_route(const Call& call, const Backward& backward, const void* normed, void* d_normed) const override;

 private:
  enum Port : size_t { picked = first_mlp_port, gates, sent, behind };
  // Ranks tell each other in both directions which rows of a message are used, where there is no capacity.
  bool dropless() const { return experts_.capacity_factor == 0; }
  size_t taken() const { return behind; }
  size_t made() const { return dropless() ? behind + 1 : behind; }

  struct Kept {  // of rows that have come
    Slots slots;
    float* gate;  // by row of the message
    void* rows;   // (slots, hidden)
    ExpertBank::Kept bank;
  };
  struct Gradients {
    ExpertBank::Gradients bank;
    Slots slots;  // these two are copies that are there when nothing is kept any more
    void* rows;
  };
  struct Projected {  // between the halves of a backward
    void *activated, *rows;
  };
  struct Scratch {
    void* rows;              // (slots, hidden)
    float* d_gate;           // (choices)
    std::byte* of_products;  // theirs
  };
  RoutingShape here(const Shape& shape) const;  // of rows that come, for the experts of this rank
  // Each choice as a row of its own.
  static RoutingShape by_choice(RoutingShape routed);
  // Says which rows of a message are used: those with a number, which is -1 of others.
  void tell_taken(const int32_t* number, void* to, const Shape& shape) const;
  // A port holds what is sent and, behind it, what has come.
  std::byte* arrived(const Call& call, size_t port, void* data) const;

  Kept kept_in(BumpAllocator& layout, const Shape& shape) const;
  Gradients gradients_in(BumpAllocator& layout, const Shape& shape, Half half) const;
  Projected projected_in(BumpAllocator& layout, const Shape& shape) const;
  Scratch scratch_in(BumpAllocator& layout, const Shape& shape) const;
  Router::Tables routing_in(std::byte* kept, const Shape& shape) const;
  uint64_t scratch(const Shape& shape) const;

  Experts experts_;
  int64_t hidden_;
  int ranks_;
  Router router_;
  ExpertBank bank_;
};

}  // namespace zrt::models
