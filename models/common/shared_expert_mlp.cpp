#include "models/common/shared_expert_mlp.h"

#include <algorithm>

#include "core/device.h"
#include "models/kernels/kernels.h"

namespace zrt::models {
namespace {

uint64_t one_behind_the_other(std::initializer_list<uint64_t> buffers) {
  BumpAllocator layout;
  for (const uint64_t bytes : buffers) layout.take(bytes);
  return layout.bytes();
}

// The last of these buffers.
std::byte* behind_others(std::byte* base, std::initializer_list<uint64_t> others, uint64_t bytes) {
  BumpAllocator layout(base);
  for (const uint64_t other : others) layout.take(other);
  return layout.take<std::byte>(bytes);
}

}  // namespace

std::vector<Linear> SharedExpertMlp::linears(MlpPart part) const {
  std::vector<Linear> all = routed_->linears(part);
  for (const MlpPart of : {MlpPart::hidden, MlpPart::projection}) {
    if (part != (spread_ ? MlpPart::route : of)) continue;
    for (const Linear& linear : dense_->linears(of)) all.push_back(linear);
  }
  return all;
}

std::vector<MlpPort> SharedExpertMlp::ports() const {
  std::vector<MlpPort> all = routed_->ports();
  if (!spread_) return all;
  const Seam stays{core::Axis::expert, Collective::none, Collective::none};
  all.push_back({"rows of shared experts", MlpPart::route, hidden_, stays, 0});
  all.push_back({"rows of shared experts, handed on", MlpPart::projection, hidden_, stays, 0});
  return all;
}

double SharedExpertMlp::flops(const Shape& shape, MlpPart part) const {
  double flops = routed_->flops(shape, part);
  for (const MlpPart of : {MlpPart::hidden, MlpPart::projection}) {
    if (part == (spread_ ? MlpPart::route : of)) flops += dense_->flops(shape, of);
  }
  return flops;
}

std::vector<GemmSpec> SharedExpertMlp::products(const Shape& shape) const {
  std::vector<GemmSpec> all = routed_->products(shape);
  for (const GemmSpec& spec : dense_->products(shape)) all.push_back(spec);
  return all;
}

uint64_t SharedExpertMlp::forward_scratch(const Shape& shape) const {
  return std::max(routed_->forward_scratch(shape), dense_->forward_scratch(shape));
}

uint64_t SharedExpertMlp::backward_scratch(const Shape& shape) const {
  return std::max(routed_->backward_scratch(shape), dense_->backward_scratch(shape));
}

uint64_t SharedExpertMlp::kept_bytes(const Shape& shape) const {
  return one_behind_the_other({routed_->kept_bytes(shape), spread_ ? 0 : dense_->kept_bytes(shape)});
}

uint64_t SharedExpertMlp::routed_bytes(const Shape& shape) const {
  return one_behind_the_other({routed_->routed_bytes(shape), spread_ ? dense_->kept_bytes(shape) : 0});
}

// The dense part is done with it when experts begin to use it.
uint64_t SharedExpertMlp::forward_bytes(const Shape& shape) const {
  return std::max(routed_->forward_bytes(shape), dense_->forward_bytes(shape));
}

Mlp::Forward SharedExpertMlp::of_dense(const Call& call, const Forward& forward) const {
  const Shape& shape = call.shape;
  Forward dense = forward;
  dense.kept =
      behind_others(spread_ ? forward.routed : forward.kept,
                    {spread_ ? routed_->routed_bytes(shape) : routed_->kept_bytes(shape)}, dense_->kept_bytes(shape));
  dense.routed = nullptr;
  return dense;
}

Mlp::Backward SharedExpertMlp::of_dense(const Call& call, const Backward& backward) const {
  const Shape& shape = call.shape;
  const auto of = [&](MlpPart part) { return dense_->backward_bytes(shape, part, call.half); };
  const auto experts = [&](MlpPart part) { return routed_->backward_bytes(shape, part, call.half); };
  const uint64_t hidden = of(MlpPart::hidden), projection = of(MlpPart::projection);
  Backward dense{};
  dense.scratch = backward.scratch;
  if (spread_) {
    const uint64_t route = experts(MlpPart::route);
    dense.kept = behind_others(backward.routed, {routed_->routed_bytes(shape)}, dense_->kept_bytes(shape));
    dense.hidden = behind_others(backward.route, {route}, hidden);
    dense.projection = behind_others(backward.route, {route, hidden}, projection);
  } else {
    dense.kept = behind_others(backward.kept, {routed_->kept_bytes(shape)}, dense_->kept_bytes(shape));
    dense.hidden = behind_others(backward.hidden, {experts(MlpPart::hidden)}, hidden);
    dense.projection = behind_others(backward.projection, {experts(MlpPart::projection)}, projection);
  }
  return dense;
}

void SharedExpertMlp::hand_on(const Call& call, void* to, const void* from) const {
  core::copy_bytes(to, from, bytes_of_rows(call.shape, hidden_));
}

void SharedExpertMlp::route(const Call& call, const Forward& forward, const void* normed) const {
  routed_->route(call, forward, normed);
  if (!spread_) return;
  const Forward dense = of_dense(call, forward);
  dense_->expand(call, dense, normed);
  dense_->project(call, dense, call.port(routed_port()), nullptr);
}

// The dense part comes last: it may write over what both read.
void SharedExpertMlp::expand(const Call& call, const Forward& forward, const void* normed) const {
  routed_->expand(call, forward, normed);
  if (!spread_) dense_->expand(call, of_dense(call, forward), normed);
}

void SharedExpertMlp::project(const Call& call, const Forward& forward, void* to, const void* add) const {
  if (spread_) {
    routed_->project(call, forward, to, add);
    return hand_on(call, call.port(combined_port()), call.port(routed_port()));
  }
  dense_->project(call, of_dense(call, forward), to, add);
  routed_->project(call, forward, to, to);
}

void SharedExpertMlp::combine(const Call& call, const Forward& forward, void* to, const void* add) const {
  routed_->combine(call, forward, to, add);
  if (spread_) add_residual(call.shape.type, to, call.port(combined_port()), {}, 0, to, call.shape.rows() * hidden_);
}

// The dense part's bytes of `hidden` and `projection` lie in the same parts as the experts'; a spread layer has them in
// `route`.
uint64_t SharedExpertMlp::backward_bytes(const Shape& shape, MlpPart part, Half half) const {
  const auto of = [&](MlpPart wanted) { return dense_->backward_bytes(shape, wanted, half); };
  const uint64_t experts = routed_->backward_bytes(shape, part, half);
  if (!spread_) return one_behind_the_other({experts, part == MlpPart::route ? 0 : of(part)});
  if (part != MlpPart::route) return experts;
  return one_behind_the_other({experts, of(MlpPart::hidden), of(MlpPart::projection)});
}

void SharedExpertMlp::backward_combine(const Call& call, const Backward& backward, const void* d_projected) const {
  routed_->backward_combine(call, backward, d_projected);
  if (spread_ && call.half != Half::weight) hand_on(call, call.d_port(combined_port()), d_projected);
}

void SharedExpertMlp::backward_projection(const Call& call, const Backward& backward, const void* d_projected) const {
  routed_->backward_projection(call, backward, d_projected);
  if (!spread_) return dense_->backward_projection(call, of_dense(call, backward), d_projected);
  if (call.half != Half::weight) hand_on(call, call.d_port(routed_port()), call.d_port(combined_port()));
}

void SharedExpertMlp::backward_hidden(const Call& call, const Backward& backward, const void* normed,
                                      void* d_normed) const {
  if (spread_) return routed_->backward_hidden(call, backward, normed, d_normed);
  backward_around(call, backward, normed, d_normed);
}

void SharedExpertMlp::backward_route(const Call& call, const Backward& backward, const void* normed,
                                     void* d_normed) const {
  if (!spread_) return routed_->backward_route(call, backward, normed, d_normed);
  dense_->backward_projection(call, of_dense(call, backward), call.d_port(routed_port()));
  backward_around(call, backward, normed, d_normed);
}

// `normed` may lie where the experts write d_normed, which the dense part then adds to.
void SharedExpertMlp::backward_around(const Call& call, const Backward& backward, const void* normed,
                                      void* d_normed) const {
  const Backward dense = of_dense(call, backward);
  Call half = call;
  half.half = Half::weight;
  if (call.half != Half::input) dense_->backward_hidden(half, dense, normed, nullptr);
  spread_ ? routed_->backward_route(call, backward, normed, d_normed)
          : routed_->backward_hidden(call, backward, normed, d_normed);
  half.half = Half::input;
  if (call.half != Half::weight) dense_->backward_hidden(half, dense, nullptr, d_normed);
}

}  // namespace zrt::models
